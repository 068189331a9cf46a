"""Access to language models, embedders and rerankers, with their prompts."""
