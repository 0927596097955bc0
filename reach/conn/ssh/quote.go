package ssh

import (
	"strings"

	"bakeoff/base/fault"
)

// Quote writes an argument vector for a POSIX shell, so that the shell
// executes exactly these words.
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quoteWord(a)
	}
	return strings.Join(words, " ")
}

func quoteWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plain tells whether no shell gives a character a meaning within a word.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+,-", r)
}

// commandLimit bounds a command line in bytes: Linux takes 128 KiB in one
// argument, and the server hands the line to the login shell as one.
const commandLimit = 120 << 10

// commandLine returns what is sent to the server for argv. The server gives
// it to the user's login shell, which may be any: csh knows ! within single
// quotes, fish knows backslashes there. So the line consists of characters
// that mean the same in all of them, and hands the words, in octal where they
// are not plain, to a POSIX shell.
func commandLine(argv []string) (string, error) {
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return "", fault.New(fault.Invalid, "ssh: an argument of %q has a NUL byte, which no argument can have", argv[0])
		}
	}
	line := `exec sh -c 'eval "$(printf %b "$1")"' sh '` + octal("exec "+Quote(argv)) + `'`
	if len(line) > commandLimit {
		return "", fault.New(fault.Invalid, "ssh: the command line of %q takes %d bytes; %d is the most", argv[0], len(line), commandLimit)
	}
	return line, nil
}

// octal writes every byte that is not plain as printf's %b reads it.
func octal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c < 0x80 && c != '%' && (plain(rune(c)) || c == ' ') {
			b.WriteByte(c)
			continue
		}
		b.WriteString(`\0`)
		b.WriteByte('0' + c>>6)
		b.WriteByte('0' + c>>3&7)
		b.WriteByte('0' + c&7)
	}
	return b.String()
}
