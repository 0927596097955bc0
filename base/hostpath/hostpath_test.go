package hostpath

import (
	"strings"
	"testing"
)

func TestPathsOfWindows(t *testing.T) {
	for path, want := range map[string]string{
		"/C:/Users/ann b": `C:\Users\ann b`,
		"/d:/":            `d:\`,
		"/d:":             `d:\`,
		"/":               `C:\`,
		"/tmp/x":          `C:\tmp\x`,
		"/dd:/x":          `C:\dd:\x`,
		`C:\Users\ann`:    `C:\Users\ann`,
		"fio":             "fio",
		"sub/x.exe":       "sub/x.exe",
		"":                "",
	} {
		if got := ofWindows(path, "C:"); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		`C:\Users\ann`: "/C:/Users/ann",
		`C:\`:          "/C:/",
		"relative":     "relative",
		`\\host\share`: "//host/share",
	} {
		if got := fromWindows(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}

// A path of Windows that is written in the common form is the same path afterwards.
func FuzzThereAndBack(f *testing.F) {
	f.Add(`C:\Users\ann`)
	f.Add(`z:\`)
	f.Fuzz(func(t *testing.T, path string) {
		if len(path) < 3 || !hasDriveLetter(path[:2]) || path[2] != '\\' || strings.Contains(path, "/") {
			return
		}
		if got := ofWindows(fromWindows(path), "C:"); got != path {
			t.Errorf("%q is %q, then %q", path, fromWindows(path), got)
		}
	})
}
