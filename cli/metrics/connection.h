// One connection of server.cpp's: reads one request over HTTP, answers it, and ends.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace cubfc::cli {

// Lives as long as it waits for its peer. The request, the answer and the end have a time limit
// each. A peer that sends or reads a little now and then gets no more time.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `page` must outlive the connection. It is called for each scrape.
  Connection(boost::asio::ip::tcp::socket socket, const std::function<std::string()>& page);

  void start();
  // Closes the socket: nothing more is read or written.
  void close();
  bool is_answering() const { return state_ == State::kAnswers; }
  bool is_answered() const { return state_ == State::kAnswered; }

 private:
  enum class State { kReads, kAnswers, kAnswered };

  void answer(boost::beast::http::status status, std::string text, const char* type);
  void answer_request();
  void answer_fault(boost::beast::error_code error);
  void await_end();

  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  const std::function<std::string()>& page_;
  State state_ = State::kReads;
};

}  // namespace cubfc::cli
