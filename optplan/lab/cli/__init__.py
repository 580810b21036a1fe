"""Commands that replay traces and measure what is best known."""
