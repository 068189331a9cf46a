"""The access to models: language models, embedders and rerankers, with their prompts."""
