package name

import "strings"

// ValidDigest reports whether s is sha256: and 64 hexadecimal digits in lower case.
func ValidDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && areHex(digits, "-", 64)
}

// ValidUUID reports whether s is a UUID in lower case.
func ValidUUID(s string) bool { return areHex(s, "-", 8, 4, 4, 4, 12) }

// ValidMAC reports whether s is a MAC address with two digits for each byte, in lower case.
func ValidMAC(s string) bool { return areHex(s, ":", 2, 2, 2, 2, 2, 2) }

// areHex reports whether s consists of hexadecimal numbers of these lengths in lower case.
func areHex(s, separator string, lengths ...int) bool {
	parts := strings.Split(s, separator)
	if len(parts) != len(lengths) {
		return false
	}
	for i, p := range parts {
		if len(p) != lengths[i] || strings.Trim(p, "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}
