// /v1/rerank, as Jina, Cohere, vLLM and llama-server have it: documents in the
// order of how well they answer a query.
#ifndef NEXUS_SERVE_RERANK_API_H_
#define NEXUS_SERVE_RERANK_API_H_

#include "nexus/net/http_server.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

// Scored by the re-ranker that routing uses (relevance_score: the sigmoid of
// its logit, 0 to 1), by cosines of the encoder where there is none. 501 with
// neither. Thread-safe.
net::ServerResponse Rerank(const net::ServerRequest& request,
                           ToolRouter* router, const Caller& caller = {});

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_RERANK_API_H_
