# Prepares the comments of a header for doxygen: the keys that CONTRIBUTING.md lists begin a line and are bold, and what
# follows Example, up to the end of the comment, is code. Lines keep their numbers. For any awk.
BEGIN {
  keys = split("Collective Blocks Stream Shapes Units Cost Lifetime Thread-safe Throws Source", key, " ")
}

function with_keys(line,    i) {
  for (i = 1; i <= keys; i++) gsub(" " key[i] ": ", " <br><b>" key[i] ":</b> ", line)
  return line
}

{
  line = $0
  comment = line ~ /^ *\/\/\/( |$)/
  if (!comment && example) {  # the line before was the example's last
    held = held " @endcode"
    example = 0
  }
  if (comment && example) {  # its further lines stand below the first one's code
    rest = substr(line, index(line, "///") + 3)
    if (column == 0) column = match(rest, /[^ ]/) - 1
    for (spaces = column; spaces > 0 && rest ~ /^ /; spaces--) rest = substr(rest, 2)
    line = substr(line, 1, index(line, "///") + 2) " " rest
  } else if (comment) {
    place = index(line " ", " Example: ")
    code = substr(line, place + 10)
    sub(/^ +/, "", code)
    column = code == "" ? 0 : length(line) - length(code) - index(line, "///") - 2
    line = place ? with_keys(substr(line, 1, place)) "<br><b>Example:</b> @code{.cpp} " code : with_keys(line)
    example = place > 0
  }
  if (NR > 1) print held
  held = line
}

END {
  if (NR > 0) print held (example ? " @endcode" : "")
}
