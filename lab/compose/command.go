package compose

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"bakeoff/base/fault"
)

// NoShell is the name of the shell that stands for none.
const NoShell = "none"

// shellNeeded says that a text means something to a shell beyond its words.
type shellNeeded struct{ what, fix string }

func (e shellNeeded) Error() string { return "only a shell understands " + e.what }

// What to do about text that needs a shell.
const (
	addShell = "add --shell sh"
	quoteIt  = "quote the character, or " + addShell
	writeEnv = "write env before it, or " + addShell
)

// Split splits a command into words as a POSIX shell does, without running one. Text
// that a shell would not only split is an error of type shellNeeded: an operator, an
// expansion, a pattern, a variable. Executed without a shell, the command would get it
// as an argument, and measure something else than what was meant.
func Split(text string) ([]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		if e, ok := errors.AsType[syntax.ParseError](err); ok {
			err = errors.New(e.Text)
		}
		return nil, err
	}
	switch {
	case len(file.Stmts) == 0:
		return nil, errors.New("the command is empty")
	case len(file.Stmts) > 1:
		return nil, shellNeeded{"several commands", addShell}
	}
	call, err := simple(file.Stmts[0])
	if err != nil {
		return nil, err
	}
	var words []string
	for _, w := range call.Args {
		word, err := literal(w)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

// simple returns the command of a statement that is nothing but a program with its
// arguments.
func simple(s *syntax.Stmt) (*syntax.CallExpr, error) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	switch {
	case len(s.Redirs) > 0:
		return nil, shellNeeded{fmt.Sprintf("the redirection %q", s.Redirs[0].Op.String()), quoteIt}
	case s.Background:
		return nil, shellNeeded{`"&"`, quoteIt}
	case s.Negated:
		return nil, shellNeeded{`"!"`, quoteIt}
	case !ok:
		if b, isBinary := s.Cmd.(*syntax.BinaryCmd); isBinary {
			return nil, shellNeeded{fmt.Sprintf("the operator %q", b.Op.String()), quoteIt}
		}
		return nil, shellNeeded{"a compound command", addShell}
	case len(call.Assigns) > 0:
		return nil, shellNeeded{"an assignment before the program", writeEnv}
	}
	return call, nil
}

// literal returns a word without its quotes.
func literal(w *syntax.Word) (string, error) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if i == 0 && strings.HasPrefix(p.Value, "~") {
				return "", shellNeeded{`"~"`, quoteIt}
			}
			text, special := unquoted(p.Value)
			if special != 0 {
				return "", shellNeeded{fmt.Sprintf("the pattern %q", string(special)), quoteIt}
			}
			b.WriteString(text)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", shellNeeded{expansion(inner), quoteIt}
				}
				b.WriteString(doubleQuoted(lit.Value))
			}
		default:
			return "", shellNeeded{expansion(part), quoteIt}
		}
	}
	return b.String(), nil
}

// expansion names a part of a word that a shell replaces.
func expansion(part syntax.WordPart) string {
	switch p := part.(type) {
	case *syntax.ParamExp:
		if p.Param != nil {
			return "the variable $" + p.Param.Value
		}
	case *syntax.CmdSubst:
		return "a command substitution"
	case *syntax.ArithmExp:
		return "an arithmetic expansion"
	}
	return "an expansion"
}

// unquoted removes backslashes outside of quotes (2.2.1 of the shell in POSIX), and
// returns the first character of a pattern that has none before it, or 0.
func unquoted(s string) (text string, special rune) {
	var b strings.Builder
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			if r != '\n' {
				b.WriteRune(r)
			}
			escaped = false
		case r == '\\':
			escaped = true
		case strings.ContainsRune("*?[", r):
			return "", r
		default:
			b.WriteRune(r)
		}
	}
	if escaped {
		b.WriteByte('\\') // at the end of the text
	}
	return b.String(), 0
}

// doubleQuoted removes the backslashes that have a meaning in double quotes (2.2.3).
func doubleQuoted(s string) string {
	return strings.NewReplacer("\\\n", "", `\\`, `\`, `\"`, `"`, `\$`, "$", "\\`", "`").Replace(s)
}

// argv is what a text executes: its words, or with a shell the shell. word names the
// flag with its text in messages. Text that is not timed gets a shell if it needs one.
func argv(text, shell, word string, timed bool) ([]string, error) {
	if shell != NoShell {
		words, err := Split(shell)
		if err != nil {
			return nil, fault.WithFix(fault.New(fault.Invalid, "--shell: %w", err), "write the program of a shell, such as sh")
		}
		return append(words, "-c", text), nil
	}
	words, err := Split(text)
	if needed, ok := errors.AsType[shellNeeded](err); ok {
		if !timed {
			return []string{"sh", "-c", text}, nil
		}
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s: %w, and bakeoff runs commands without a "+
			"shell", word, needed),
			needed.fix)
	}
	if err != nil {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s: %w", word, err), "write a command as for a shell")
	}
	return words, nil
}
