"""The model doors: language models, embedders and rerankers, with their prompts."""
