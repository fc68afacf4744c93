"""Series as people have them: arrays, ragged lists, data frames, tables in files; with times and missing values."""
