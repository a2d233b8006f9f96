#include "cli/metrics/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include "cli/failure.h"
#include "cli/metrics/connection.h"

namespace cubfc::cli {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// After SIGTERM or SIGINT, the time for requests that are being answered.
constexpr std::chrono::milliseconds kForTheLast{700};
// The pause after a connection could not be accepted.
constexpr std::chrono::milliseconds kForRoom{50};

// The most connections at once; when one more comes, an older one is closed. At most a quarter of
// the files that this process may open, since making a page opens files, too.
std::size_t most_connections() {
  constexpr std::size_t kMost = 64;
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0
             ? std::clamp<std::size_t>(files.rlim_cur / 4, 1, kMost)
             : kMost;
}

[[noreturn]] void fail(const Address& address, const error_code& error) {
  std::string advice;
  if (error == asio::error::address_in_use) {
    advice = "; another program listens there: take another port, or see `ss -ltnp`";
  } else if (error == asio::error::access_denied) {
    advice = "; ports below 1024 need root or CAP_NET_BIND_SERVICE: take a higher one";
  } else if (error == boost::system::errc::address_not_available) {
    advice = "; no network interface of this machine has it: see `ip address`, or take 0.0.0.0";
  } else if (error.category() == asio::error::get_netdb_category()) {
    advice = "; give a number, such as 127.0.0.1";
  }
  throw Failure{"cannot listen on " + text_of(address) + ": " + error.message() + advice};
}

tcp::acceptor listening(asio::io_context& context, const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(context, endpoint.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  if (endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(false));  // [::] takes IPv4's connections, too
  }
  acceptor.bind(endpoint);
  acceptor.listen();
  return acceptor;
}

// Listens on one address of the name: the first on which that is possible. Tries IPv4 addresses
// before IPv6 ones; "localhost" may have both. Throws Failure.
tcp::acceptor listen(asio::io_context& context, const Address& address) {
  error_code error;
  tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(address.host, std::to_string(address.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) {
    fail(address, error);
  }
  std::vector<tcp::endpoint> endpoints(found.begin(), found.end());
  std::stable_partition(endpoints.begin(), endpoints.end(),
                        [](const tcp::endpoint& each) { return each.address().is_v4(); });
  error_code first_error;
  for (const tcp::endpoint& endpoint : endpoints) {
    try {
      return listening(context, endpoint);
    } catch (const boost::system::system_error& its) {
      first_error = first_error ? first_error : its.code();
    }
  }
  fail(address, first_error);
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(const Address& address, std::function<std::string()> page)
      : page_(std::move(page)), acceptor_(listen(context_, address)) {}

  Address address() const {
    const tcp::endpoint endpoint = acceptor_.local_endpoint();
    return {endpoint.address().to_string(), endpoint.port()};
  }

  void run() {
    signals_.async_wait([this](const error_code& error, int) {
      if (!error) {
        context_.stop();
      }
    });
    accept();
    context_.run();
    end();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!error) {
        start(std::move(socket));
      }
      if (!error || error == asio::error::connection_aborted) {
        accept();
      } else if (acceptor_.is_open()) {
        accept_later();
      }
    });
  }

  // Called when no connection can be accepted, because too many files are open or memory is
  // lacking.
  void accept_later() {
    make_room();
    for_room_.expires_after(kForRoom);
    for_room_.async_wait([this](const error_code& error) {
      if (!error) {
        accept();
      }
    });
  }

  void start(tcp::socket socket) {
    std::erase_if(connections_, [](const auto& each) { return each.expired(); });
    if (connections_.size() >= most_connections_) {
      make_room();
    }
    const auto connection = std::make_shared<Connection>(std::move(socket), page_);
    connections_.push_back(connection);
    connection->start();
  }

  // Closes the oldest connection that has no request yet, or has its answer. If there is none,
  // closes the oldest of all, whose peer still reads the answer. A scrape sends its request at
  // once. So its connection is not closed as long as there is one that a peer only keeps open.
  void make_room() {
    const auto is_of_no_use = [](const auto& each) {
      const auto connection = each.lock();
      return connection && !connection->is_answering();
    };
    auto closed = std::ranges::find_if(connections_, is_of_no_use);
    closed = closed == connections_.end() ? connections_.begin() : closed;
    if (closed != connections_.end()) {
      if (const auto connection = closed->lock()) {
        connection->close();
      }
      connections_.erase(closed);
    }
  }

  // Called after SIGTERM or SIGINT. Accepts the connections that wait, and gives all requests
  // kForTheLast to be answered.
  void end() {
    error_code error;
    acceptor_.non_blocking(true, error);
    for (std::size_t i = 0; i < most_connections_ && !error; ++i) {
      tcp::socket socket(context_);
      acceptor_.accept(socket, error);
      if (!error) {
        start(std::move(socket));
      }
    }
    acceptor_.close(error);
    for_room_.cancel();
    for (const auto& each : connections_) {
      if (const auto connection = each.lock(); connection && connection->is_answered()) {
        connection->close();
      }
    }
    context_.restart();
    context_.run_for(kForTheLast);
  }

  std::function<std::string()> page_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::signal_set signals_{context_, SIGTERM, SIGINT};
  asio::steady_timer for_room_{context_};
  std::vector<std::weak_ptr<Connection>> connections_;  // the oldest first
  const std::size_t most_connections_ = most_connections();
};

Server::Server(const Address& address, std::function<std::string()> page)
    : implementation_(std::make_unique<Implementation>(address, std::move(page))) {}

Server::~Server() = default;

Address Server::address() const {
  return implementation_->address();
}

void Server::run() {
  implementation_->run();
}

}  // namespace cubfc::cli
