#include "cli/metrics/connection.h"

#include <chrono>
#include <exception>
#include <string_view>

namespace cubfc::cli {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::asio::ip::tcp;

constexpr std::chrono::seconds kForRequest{10};
constexpr std::chrono::seconds kForAnswer{30};
constexpr std::chrono::seconds kForEnd{1};
constexpr std::size_t kMostHeaderBytes = 8192;

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kIndex = R"(<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>cubfc</title></head>
<body>
<h1>cubfc</h1>
<p><a href="metrics">Metrics</a>: GPU memory of the processes under cubfc, in Prometheus's text format.</p>
</body>
</html>
)";

// The path of a request's target: without what follows a question mark, and without the
// "http://host" that a proxy may send.
std::string_view path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (const std::size_t scheme = target.find("://"); scheme < target.find('/')) {
    const std::size_t path = target.find('/', scheme + 3);
    return path == std::string_view::npos ? "/" : target.substr(path);
  }
  return target;
}

}  // namespace

Connection::Connection(tcp::socket socket, const std::function<std::string()>& page)
    : stream_(std::move(socket)), buffer_(2 * kMostHeaderBytes), page_(page) {
  parser_.header_limit(kMostHeaderBytes);
}

void Connection::start() {
  stream_.expires_after(kForRequest);
  http::async_read_header(stream_, buffer_, parser_,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            error ? self->answer_fault(error) : self->answer_request();
                          });
}

void Connection::close() {
  stream_.close();
}

// Answers a request whose headers cannot be read. A peer that has closed, or was too slow, gets no
// answer.
void Connection::answer_fault(beast::error_code error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    answer(http::status::request_header_fields_too_large, "The headers are too long.\n", kText);
  } else if (error.category() == beast::error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    answer(http::status::bad_request, "This is no HTTP request.\n", kText);
  }
}

void Connection::answer_request() {
  const auto& request = parser_.get();
  const beast::string_view target = request.target();
  const std::string_view path = path_of({target.data(), target.size()});
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    response_.set(http::field::allow, "GET, HEAD");
    answer(http::status::method_not_allowed, "Only GET and HEAD are answered.\n", kText);
  } else if (path == "/") {
    answer(http::status::ok, kIndex, "text/html; charset=utf-8");
  } else if (path != "/metrics") {
    answer(http::status::not_found, "There is /metrics, and nothing else.\n", kText);
  } else {
    std::string text;
    try {
      text = page_();
    } catch (const std::exception& error) {
      answer(http::status::internal_server_error, std::string(error.what()) + '\n', kText);
      return;
    }
    answer(http::status::ok, std::move(text), "text/plain; version=0.0.4; charset=utf-8");
  }
}

void Connection::answer(http::status status, std::string text, const char* type) {
  state_ = State::kAnswers;
  response_.version(11);
  response_.result(status);
  response_.keep_alive(false);
  response_.set(http::field::content_type, type);
  response_.content_length(text.size());
  if (!parser_.is_header_done() || parser_.get().method() != http::verb::head) {
    response_.body() = std::move(text);
  }
  stream_.expires_after(kForAnswer);
  http::async_write(stream_, response_,
                    [self = shared_from_this()](beast::error_code error, std::size_t) {
                      if (!error) {
                        self->state_ = State::kAnswered;
                        beast::error_code is_closed;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, is_closed);
                        self->stream_.expires_after(kForEnd);
                        self->await_end();
                      }
                    });
}

// Reads and drops what the peer still sends, until it closes or time is over: if a socket were
// closed with something left to be read, the peer could lose the answer.
void Connection::await_end() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(kMostHeaderBytes),
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            if (!error) {
                              self->await_end();
                            }
                          });
}

}  // namespace cubfc::cli
