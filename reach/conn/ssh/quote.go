package ssh

import (
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/shell"
)

// commandLimit bounds a command line in bytes: Linux accepts 128 KiB in one
// argument, and the server passes the line to the login shell as one.
const commandLimit = 120 << 10

// commandLine returns what is sent to the server for argv. The server passes it
// to the user's login shell, which may be any: csh expands ! within single
// quotes, fish backslashes. So the line uses only characters that mean the same
// in all of them. It passes the words to a POSIX shell, with other characters
// in octal.
func commandLine(argv []string) (string, error) {
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return "", fault.New(fault.Invalid, "ssh: an argument of %q contains a NUL byte", argv[0])
		}
	}
	line := `exec sh -c 'eval "$(printf %b "$1")"' sh '` + octal("exec "+shell.Quote(argv...)) + `'`
	if len(line) > commandLimit {
		return "", fault.New(fault.Invalid, "ssh: the command line of %q has %d bytes; the limit is %d", argv[0],
			len(line), commandLimit)
	}
	return line, nil
}

// octal writes every byte that is not plain as an escape of printf's %b.
func octal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c < 0x80 && c != '%' && (shell.Plain(rune(c)) || c == ' ') {
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
