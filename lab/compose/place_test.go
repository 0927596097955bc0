package compose

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestTryPlacesFiles(t *testing.T) {
	r := Request{Argv: []string{"/opt/server"}, Shell: NoShell, Dir: "/work",
		Envs:  []string{"host", "bwrap:debian:bookworm"},
		Files: []string{"./build/server", "odd: name:/srv/data"}, Budget: 1}
	f, err := Try(r, catalogue())
	if err != nil {
		t.Fatal(err)
	}
	want := "files:\n  - {from: ./build/server, to: /opt/server}\n  - {from: 'odd: name', to: /srv/data}\n"
	if !strings.Contains(string(f.Text), want) {
		t.Errorf("%s", f.Text)
	}
	lab, err := f.Load(catalogue())
	if err != nil || len(lab.Files) != 2 || lab.Files[1].From != "odd: name" ||
		lab.Files[1].Where != `--file "odd: name:/srv/data"` {
		t.Errorf("%+v, %v", lab, err)
	}
}

func TestWrongFilesOfTry(t *testing.T) {
	for text, says := range map[string]string{
		":/opt/x":    "names no file",
		".":          "--file .:/opt/work",
		"x:/proc/x":  "environments mount something over /proc/x",
		"x:/opt":     "/opt is a folder of the system",
		"x:/opt/../": "shortest form",
	} {
		f, err := Try(Request{Argv: []string{"true"}, Shell: NoShell, Files: []string{text}, Budget: 1}, catalogue())
		if err == nil {
			_, err = f.Load(catalogue())
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--file") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A file of the current folder is named with the flag that brings it.
func TestTryNamesTheFlagForAFile(t *testing.T) {
	r := Request{Argv: []string{"./server"}, Shell: NoShell, Envs: []string{"host", "bwrap:debian:bookworm"}, Budget: 1,
		Exists: func(name string) bool { return name == "./server" }}
	for _, c := range []struct {
		files []string
		says  string
	}{{nil, "add --file ./server, and write /opt/server in the command"}, {[]string{"server"},
		"the command finds it at /opt/server"}} {
		r.Files = c.files
		f, err := Try(r, catalogue())
		if err != nil || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], c.says) {
			t.Errorf("%v: %v, %v", c.files, f.Notes, err)
		}
	}
}
