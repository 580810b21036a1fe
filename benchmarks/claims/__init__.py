"""The claims of four papers, each beside what comes out here: ``python -m claims`` measures and writes the pages."""
