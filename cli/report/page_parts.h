// The page's sources as text in the program. embed.cmake makes page_parts.cpp from page.html,
// page.css and the scripts; all scripts are one text.
#pragma once

#include <string_view>

namespace cubfc::report {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace cubfc::report
