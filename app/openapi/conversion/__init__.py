"""Operations of a document as tools, one part of an operation per file."""
