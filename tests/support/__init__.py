"""What tests share; each module says what it holds."""
