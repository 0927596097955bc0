package lint

import (
	"strings"

	"bakeoff/base/lazy"
)

// maxExpanded bounds what the values of variables may add up to, in bytes, as they can contain each other.
const maxExpanded = 16 * maxText

// assignment is NAME=VALUE in a file that a shell reads, or NAME+=VALUE if more.
type assignment struct {
	name, value string
	more        bool
}

var (
	assignName   = lazy.Compile(`^([A-Za-z_][A-Za-z0-9_]*)(\+?)=$`)
	variableName = lazy.Compile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)
)

// assignments sets the variables that a file would set if a shell read it, and returns them.
func assignments(text string, vars map[string]string) map[string]string {
	readAssignments(text, vars)
	return vars
}

// readAssignments returns the assignments of a file, and makes them in vars. All branches of a
// condition count. What only a shell knows, such as $(hostname), stays as it is written.
func readAssignments(text string, vars map[string]string) (out []assignment) {
	r := shellReader{rest: strings.ReplaceAll(text, "\r\n", "\n"), vars: vars}
	for r.rest != "" && r.expanded < maxExpanded {
		r.word()
	}
	r.end()
	return r.out
}

// shellReader divides a text into the words of a shell.
type shellReader struct {
	rest    string
	vars    map[string]string
	out     []assignment
	current strings.Builder
	begun   bool // a word, which may be empty
	target  assignment
	assigns bool // the word is an assignment to target
	command bool // the words so far name a program, whose arguments follow

	expanded int // bytes of variables
}

// take removes n bytes and returns them.
func (r *shellReader) take(n int) string {
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// word reads one part of a word, or what ends it.
func (r *shellReader) word() {
	switch c := r.rest[0]; {
	case strings.HasPrefix(r.rest, "\\\n"):
		r.take(2)
	case c == '\\':
		s := r.take(min(2, len(r.rest)))
		r.add(s[1:])
	case c == '\'':
		s, rest, _ := strings.Cut(r.rest[1:], "'")
		r.rest = rest
		r.add(s)
	case c == '"':
		r.take(1)
		r.quoted()
	case c == '$' || c == '`':
		r.add(r.expand())
	case c == '#' && !r.begun:
		comment, _, _ := strings.Cut(r.rest, "\n")
		r.take(len(comment))
	case c == ' ' || c == '\t':
		r.take(1)
		r.end()
	case strings.IndexByte("\n;&|()", c) >= 0:
		r.take(1)
		r.end()
		r.command = false
	case c == '=' && !r.assigns && !r.command:
		r.take(1)
		if m := assignName.FindStringSubmatch(r.current.String() + "="); m != nil {
			r.target, r.assigns = assignment{name: m[1], more: m[2] != ""}, true
			r.current.Reset()
			return
		}
		r.add("=")
	default:
		r.add(r.take(1))
	}
}

// quoted reads the rest of a text in double quotes.
func (r *shellReader) quoted() {
	r.add("")
	for r.rest != "" && r.expanded < maxExpanded {
		switch c := r.rest[0]; {
		case c == '"':
			r.take(1)
			return
		case c == '\\' && len(r.rest) > 1 && strings.IndexByte("$`\"\\\n", r.rest[1]) >= 0:
			if s := r.take(2)[1:]; s != "\n" {
				r.add(s)
			}
		case c == '$' || c == '`':
			r.add(r.expand())
		default:
			r.add(r.take(1))
		}
	}
}

// expand returns the value of the variable that comes next, or what is written there.
func (r *shellReader) expand() string {
	if m := variableName.FindStringSubmatch(r.rest); m != nil {
		written := r.take(len(m[0]))
		name := m[1] + m[2]
		if v, ok := r.vars[name]; ok || r.assigns && name == r.target.name {
			r.expanded += len(v)
			return v
		}
		return written
	}
	end := ""
	switch {
	case strings.HasPrefix(r.rest, "$("):
		end = ")"
	case strings.HasPrefix(r.rest, "${"):
		end = "}"
	case r.rest[0] == '`':
		end = "`"
	default:
		return r.take(1)
	}
	if i := strings.Index(r.rest[1:], end); i >= 0 {
		return r.take(i + 2)
	}
	return r.take(len(r.rest))
}

// add continues a word.
func (r *shellReader) add(s string) {
	r.begun = true
	r.current.WriteString(s)
}

// end ends a word.
func (r *shellReader) end() {
	switch word := r.current.String(); {
	case r.assigns:
		a := r.target
		a.value = word
		r.out = append(r.out, a)
		if a.more {
			word = r.vars[a.name] + word
			r.expanded += len(word)
		}
		r.vars[a.name] = word
	case r.begun:
		r.command = !strings.Contains(" export if then else elif do while until ! { ", " "+word+" ")
	}
	r.current.Reset()
	r.begun, r.assigns = false, false
}
