"""Finding tools: the index in the memory of a worker, the ranking, words, vectors, use and conditions."""
