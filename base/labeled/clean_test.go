package labeled

import "testing"

func TestCleanRemovesWhatProgramsAdd(t *testing.T) {
	for text, want := range map[string]string{"a\n": "a\n", "\xef\xbb\xbfa\n\x00": "a\n", "a\x00\x00\x1a": "a",
		"\xff\xfea\x00\n\x00\xac\x20": "a\n€", "\xfe\xff\x00a\x20\xac": "a€",
		"\xff\xfea\x00\n": "a", "\xff\xfe": "", "": ""} {
		if got := string(Clean([]byte(text))); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
