// What `cubfc metrics --listen` does: answers over HTTP until a signal ends it. Knows nothing of
// what is on the page. One thread; whoever is slow, or says nothing, keeps nobody else waiting.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/metrics/address.h"

namespace cubfc::cli {

class Server {
 public:
  // Listens from now on; `page` is made anew for each scrape, on the thread of run(). Throws
  // Failure, which names the address and what helps.
  Server(const Address& address, std::function<std::string()> page);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, with the port that the system has chosen where 0 was asked for.
  Address address() const;
  // Returns within a second after SIGTERM or SIGINT. A scrape that is being answered then is
  // answered.
  void run();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace cubfc::cli
