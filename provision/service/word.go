package service

import (
	"strings"
)

// maxExpanded bounds what variables make of a value, in bytes.
const maxExpanded = 64 << 10

// words splits text at spaces outside of quotes, removes the quotes, and puts in the
// values of variables, except between single quotes.
func (c *containerfile) words(in instruction, text string) (out []string) {
	s := scanner{c: c, in: in, text: text}
	for s.skipSpace(); s.at < len(s.text); s.skipSpace() {
		out = append(out, s.word(" \t"))
	}
	return out
}

// expand puts in the values of variables, and removes quotes.
func (c *containerfile) expand(in instruction, text string) string {
	s := scanner{c: c, in: in, text: text}
	return s.word("")
}

// scanner reads words.
type scanner struct {
	c    *containerfile
	in   instruction
	text string
	at   int
	bad  bool
}

func (s *scanner) fail(fix, format string, args ...any) {
	if !s.bad {
		s.c.Add(s.in.Position, fix, format, args...)
	}
	s.bad, s.at = true, len(s.text)
}

func (s *scanner) skipSpace() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

// word reads up to one of the bytes in end.
func (s *scanner) word(end string) string {
	var b strings.Builder
	for s.at < len(s.text) {
		ch := s.text[s.at]
		switch {
		case strings.IndexByte(end, ch) >= 0:
			return b.String()
		case ch == '\'':
			text, after, ok := strings.Cut(s.text[s.at+1:], "'")
			if !ok {
				s.fail("end the text with '", "a quote is not closed")
				return b.String()
			}
			b.WriteString(text)
			s.at = len(s.text) - len(after)
		case ch == '"':
			s.at++
			s.quoted(&b)
		case ch == '\\' && s.at+1 < len(s.text):
			b.WriteByte(s.text[s.at+1])
			s.at += 2
		case ch == '$':
			b.WriteString(s.value())
		default:
			b.WriteByte(ch)
			s.at++
		}
		if b.Len() > maxExpanded {
			s.fail("make it shorter", "the value has more than %d bytes", maxExpanded)
		}
	}
	return b.String()
}

// quoted reads up to the next double quote.
func (s *scanner) quoted(b *strings.Builder) {
	for s.at < len(s.text) {
		ch := s.text[s.at]
		switch {
		case ch == '"':
			s.at++
			return
		case ch == '\\' && s.at+1 < len(s.text) && strings.IndexByte(`"\$`, s.text[s.at+1]) >= 0:
			b.WriteByte(s.text[s.at+1])
			s.at += 2
		case ch == '$':
			b.WriteString(s.value())
		default:
			b.WriteByte(ch)
			s.at++
		}
		if b.Len() > maxExpanded {
			s.fail("make it shorter", "the value has more than %d bytes", maxExpanded)
			return
		}
	}
	s.fail(`end the text with "`, "a quote is not closed")
}

// value reads $NAME, ${NAME}, ${NAME:-DEFAULT} or ${NAME:+OTHER}.
func (s *scanner) value() string {
	s.at++ // the dollar sign
	braces := strings.HasPrefix(s.text[s.at:], "{")
	if braces {
		s.at++
	}
	from := s.at
	for s.at < len(s.text) && (s.text[s.at] == '_' || s.text[s.at] >= 'a' && s.text[s.at] <= 'z' ||
		s.text[s.at] >= 'A' && s.text[s.at] <= 'Z' || s.text[s.at] >= '0' && s.text[s.at] <= '9' && s.at > from) {
		s.at++
	}
	name := s.text[from:s.at]
	if name == "" {
		s.fail(`write \$ for the character`, "there is no name after $")
		return ""
	}
	value, ok := s.c.env[name]
	if !ok {
		value = s.c.arguments[name]
	}
	if !braces {
		return value
	}
	for _, op := range []string{":-", ":+"} {
		if !strings.HasPrefix(s.text[s.at:], op) {
			continue
		}
		word, after, closed := strings.Cut(s.text[s.at+2:], "}")
		if !closed || strings.ContainsAny(word, "$'\"\\") {
			s.fail("write ${NAME:-WORD} with a plain word", "bakeoff cannot read the default of %s", name)
			return ""
		}
		s.at = len(s.text) - len(after)
		if (value == "") == (op == ":-") {
			return word
		}
		if op == ":+" {
			return ""
		}
		return value
	}
	if !strings.HasPrefix(s.text[s.at:], "}") {
		s.fail("write ${NAME}, ${NAME:-WORD} or ${NAME:+WORD}", "bakeoff cannot read what follows ${%s", name)
		return ""
	}
	s.at++
	return value
}
