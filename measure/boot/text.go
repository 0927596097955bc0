package boot

import "strings"

// ValidText returns text of a file with replacement characters where it is not UTF-8.
func ValidText[T string | []byte](text T) string { return strings.ToValidUTF8(string(text), "\uFFFD") }

// AreDigits reports whether s is a decimal number of at most nine digits.
func AreDigits(s string) bool { return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == "" }
