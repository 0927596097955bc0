// Package shell writes argument vectors as a POSIX shell reads them: in commands that
// a person may paste, in messages, and in what is sent over SSH.
package shell

import "strings"

// Quote quotes an argument vector, so that a POSIX shell executes exactly these words.
// Words whose characters have no meaning in any shell stay as they are.
func Quote(argv ...string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.IndexFunc(a, func(r rune) bool { return !Plain(r) }) >= 0 {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Plain reports whether a character has no meaning in any shell within a word.
func Plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+,-", r)
}
