package safetext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "nginx 1.26.3", "nginx 1.26.3"},
		{"breaks and tabs", "a\r\nb\nc\td\re", "a b c d e"},
		{"escape sequence", "\x1b[31mred\x1b[0m", "�[31mred�[0m"},
		{"C1 control", "a\u009b2Jb", "a�2Jb"},
		{"NUL and DEL", "a\x00b\x7f", "a�b�"},
		{"not UTF-8", "caf\xe9", "caf�"},
		{"binary", "\x00\x01\xfe\xff\x7fELF", "�ELF"},
		{"direction override", "gpj\u202eexe", "gpj�exe"},
		{"isolates and marks", "\u2066a\u2069\u200f\u061c", "�a�"},
		{"tag characters", "a\U000e0041\U000e007fb", "a�b"},
		{"zero-width space, byte order mark", "a\u200bb\ufeffc", "a�b�c"},
		{"soft hyphen", "a\u00adb", "a�b"},
		{"separators", "a\u2028b\u2029c", "a�b�c"},
		{"private use", "\ue000", "�"},
		{"no-break spaces", "2.4\u00a0%\u202f", "2.4\u00a0%\u202f"},
		{"Persian with a non-joiner", "می\u200cروم", "می\u200cروم"},
		{"emoji with a joiner", "👩\u200d🔬", "👩\u200d🔬"},
	} {
		if got := Line(c.in); got != c.want {
			t.Errorf("%s: Line(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
	if got := Line(strings.Repeat("é", MaxLine)); len(got) > MaxLine || !strings.HasSuffix(got, "é…") {
		t.Errorf("a long line has %d bytes and ends in %q", len(got), got[len(got)-8:])
	}
	if s := strings.Repeat("x", MaxLine); Line(s) != s {
		t.Error("a line that just fits is cut")
	}
}

func TestText(t *testing.T) {
	if got, want := Text("a\r\n\tb\x1b[2J\rc\n"), "a\n\tb�[2J\nc\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLastLines(t *testing.T) {
	if got, want := LastLines("one\n two \r\r\n\n\x07three\n\n", 2), "two\n�three"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := LastLines(" \n\n", 3); got != "" {
		t.Errorf("blank lines: %q", got)
	}
	if got := LastLines(strings.Repeat("é", 600), 1); utf8.RuneCountInString(got) != 500 {
		t.Errorf("a long line has %d characters", utf8.RuneCountInString(got))
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"größer", 6, "größer"}, {"größer", 4, "grö…"}, {"ab", 1, "…"}, {"ab", 0, "ab"}} {
		if got := Clip(c.in, c.n); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// Types that contain themselves, unexported fields and nil pointers.
func TestScrub(t *testing.T) {
	type node struct {
		Name  string
		Count int
		Next  *node
		Kids  []node
		Facts map[string]node
		List  [2]string
		note  string
	}
	v := node{Name: "a\x1b", Next: &node{Name: "b\x00"}, Kids: []node{{Name: "c\u202e"}}, List: [2]string{"d\x7f", "e"},
		Facts: map[string]node{"f\x1b": {Name: "g\x1b"}}, note: "h\x1b", Count: 1}
	Scrub(&v, Line)
	if v.Name != "a�" || v.Next.Name != "b�" || v.Kids[0].Name != "c�" || v.List != [2]string{"d�", "e"} ||
		v.Facts["f�"].Name != "g�" || len(v.Facts) != 1 || v.note != "h\x1b" {
		t.Errorf("%+v, next %+v", v, v.Next)
	}
}

func Fuzz(f *testing.F) {
	for _, s := range []string{"", "a\tb\r\nc", "\x1b]0;title\x07", "\u202e\U000e0020", "\xff\xfe",
		strings.Repeat("\xff", 5000)} {
		f.Add(s)
	}
	unsafe := func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) &&
			!unicode.Is(unicode.Join_Control, r)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line, text := Line(s), Text(s)
		if i := strings.IndexFunc(line, unsafe); i >= 0 {
			t.Errorf("Line left %q", line[i:])
		}
		if i := strings.IndexFunc(strings.NewReplacer("\n", "", "\t", "").Replace(text), unsafe); i >= 0 {
			t.Errorf("Text left %q at %d", text, i)
		}
		if !utf8.ValidString(line) || !utf8.ValidString(text) {
			t.Errorf("not UTF-8: %q, %q", line, text)
		}
		if len(line) > MaxLine {
			t.Errorf("Line returned %d bytes", len(line))
		}
		if again := Line(line); again != line {
			t.Errorf("Line changes its own result: %q, %q", line, again)
		}
		if last := LastLines(s, 3); strings.Count(last, "\n") > 2 || strings.Contains(last, "\n\n") {
			t.Errorf("LastLines(…, 3) returned %q", last)
		}
		if strings.Contains(s, "plain") && !strings.Contains(text, "plain") {
			t.Errorf("Text lost plain text: %q", text)
		}
	})
}
