// The HTTP server of `cubfc metrics --listen`, which answers until a signal ends it. Knows nothing
// of what is on the page. One thread; a peer that is slow, or says nothing, keeps no other waiting.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/metrics/address.h"

namespace cubfc::cli {

class Server {
 public:
  // Listens from now on. run() calls `page` for each scrape, on its own thread. Throws Failure,
  // which names the address and what helps.
  Server(const Address& address, std::function<std::string()> page);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, with the port that the system has chosen where 0 was asked for.
  Address address() const;
  // Returns within a second after SIGTERM or SIGINT. Before that, scrapes that have begun get their
  // answers.
  void run();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace cubfc::cli
