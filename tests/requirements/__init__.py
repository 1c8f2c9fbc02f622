"""The requirement documents, sentence by sentence."""
