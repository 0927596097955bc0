package preflight

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/unit"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	command "bakeoff/measure/workload/command/runner"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// groundless is a driver whose environments are on the host's root, imaged one with images.
type groundless struct{ *shelf }

func (b groundless) Doc() driver.Doc {
	d := b.shelf.Doc()
	d.Files = true
	return d
}

type imaged struct{ *shelf }

func (i imaged) Doc() driver.Doc {
	d := i.shelf.Doc()
	d.Image = true
	return d
}

// lookAtFiles plans a lab with files and looks at this machine. The lab file is in dir.
func lookAtFiles(t *testing.T, dir, rest string) (Survey, error) {
	t.Helper()
	drivers := []driver.Driver{groundless{&shelf{name: "bare"}}, imaged{&shelf{name: "imaged"}}}
	workloads := []execution.Runner{command.New()}
	cat := CatalogueOf(drivers, workloads)
	src := "schema: bakeoff/lab/v1\nname: look\nbaseline: base\n" + rest
	lab, err := manifest.Parse(filepath.Join(dir, "lab.yaml"), []byte(src), cat, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := inputs.Record(t.Context(), lab, nil); err != nil {
		return Survey{}, err
	}
	p, err := plan.Expand(lab, cat, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	return Inspect(t.Context(), p, Site{Drivers: drivers, Workloads: workloads, Sources: dir, Cache: dir,
		Way:   func(string) (conn.Conn, error) { return local.Conn{}, nil },
		Size:  func(string) (int, unit.Bytes, error) { return 4, 8 * unit.GiB, nil },
		State: func(string) string { return dir }})
}

func whyNot(t *testing.T, s Survey, contender string) string {
	t.Helper()
	i := slices.IndexFunc(s.Answers, func(a Availability) bool { return a.Contender == contender })
	if i < 0 {
		t.Fatalf("no answer for %s", contender)
	}
	if s.Answers[i].Answer.OK {
		return ""
	}
	return s.Answers[i].Answer.String()
}

// put writes a file of dir.
func put(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// elf is the header of a static program for a processor.
func elf(machine byte) string {
	return "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00" +
		string([]byte{machine, 0}) + "\x01\x00\x00\x00" +
		strings.Repeat("\x00", 8) + "\x40" + strings.Repeat("\x00", 7) + strings.Repeat("\x00", 12) +
		"\x40\x00\x38\x00\x00\x00\x00\x00\x00\x00\x00\x00"
}

// A placed program is there for the command, and the reason why it could not start is
// said before anything starts.
func TestPlacedPrograms(t *testing.T) {
	dir := t.TempDir()
	machine := map[string]byte{"amd64": 62, "arm64": 183}[runtime.GOARCH]
	if machine == 0 {
		t.Skip("needs a processor whose number this test knows")
	}
	put(t, dir, "good", elf(machine), 0o755)
	put(t, dir, "other", elf(8), 0o755)
	put(t, dir, "plain", elf(machine), 0o644)
	put(t, dir, "mac", "\xcf\xfa\xed\xfe        ", 0o755)
	put(t, dir, "script", "#!/no/such/shell\n", 0o755)
	put(t, dir, "half", elf(machine)[:30], 0o755)
	put(t, dir, "tree/bin/server", elf(machine), 0o755)
	put(t, dir, "tree/bin/foreign", elf(8), 0o755)
	for _, c := range []struct{ files, argv, why, absent string }{
		{"{from: good, to: /opt/good}", "/opt/good", "", ""},
		{"{from: good, to: /usr/local/bin/bakeoff-placed}", "bakeoff-placed", "", ""},
		{"{from: good, to: /opt/good}", "/opt/bad", "", "there is no file /opt/bad"},
		{"{from: tree, to: /opt/tree}", "/opt/tree/bin/server", "", ""},
		{"{from: tree, to: /opt/tree}", "/opt/tree/bin/client", "", "there is no file /opt/tree/bin/client"},
		{"{from: tree, to: /opt/tree}", "/opt/tree/bin/foreign", "tree is a program for another processor", ""},
		{"{from: other, to: /opt/other}", "/opt/other", "other is a program for another processor, but the " +
			"architecture of host local is " +
			runtime.GOARCH + "; build it for " + runtime.GOARCH + ", in Go with GOARCH=" + runtime.GOARCH, ""},
		{"{from: plain, to: /opt/plain}", "/opt/plain", "plain is not executable; add mode: 0755 to it", ""},
		{"{from: plain, to: /opt/plain, mode: 0755}", "/opt/plain", "", ""},
		{"{from: plain, to: /opt/plain}", "true", "", ""},
		{"{from: mac, to: /opt/mac}", "/opt/mac", "mac is a program for darwin, but host local runs Linux", ""},
		{"{from: script, to: /opt/script}", "/opt/script", "script needs the interpreter /no/such/shell, which " +
			"host local does not have", ""},
		{"{from: half, to: /opt/half}", "/opt/half", "half is damaged", ""},
		{"{from: good, to: /no-such-folder/good}", "/no-such-folder/good",
			"the host has none of the folders above /no-such-folder/good except /; write to: /opt/good", ""},
		{"{from: good, to: /etc/passwd/good}", "/etc/passwd/good", "/etc/passwd is a file on the host", ""},
	} {
		s, err := lookAtFiles(t, dir, "contenders: [{name: base, driver: bare}, {name: x, driver: bare, files: ["+c.files+
			"], params: {run: {argv: ["+c.argv+"]}}}]\ncells: [{name: run, workload: command, params: {argv: [\"true\"]}}]\n")
		if err != nil {
			t.Fatal(err)
		}
		if why := whyNot(t, s, "x"); (c.why == "") != (why == "") || !strings.Contains(why, c.why) ||
			c.why != "" && !strings.HasPrefix(why, "lab.yaml:4:") {
			t.Errorf("%s: %q, want %q", c.files, why, c.why)
		}
		var absent []string
		for _, a := range s.Absent {
			absent = append(absent, a.String())
		}
		if all := strings.Join(absent, "\n"); (c.absent == "") != (all == "") || !strings.Contains(all, c.absent) {
			t.Errorf("%s: %q, want %q", c.argv, all, c.absent)
		}
	}
}

// Files that cannot be packed are refused at their place in the lab file, all at once.
func TestFilesThatCannotBePacked(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "tree/x", "", 0o644)
	if err := os.Symlink("/etc", filepath.Join(dir, "tree", "etc")); err != nil {
		t.Fatal(err)
	}
	_, err := lookAtFiles(t, dir, "files:\n  - {from: none, to: /opt/none}\n  - {from: tree, to: /opt/tree}\ncontenders: "+
		"[{name: base, driver: bare}]\ncells: [{name: run, workload: command, params: {argv: [\"true\"]}}]\n")
	for _, want := range []string{"lab.yaml:5:5: there is no file or folder none",
		"lab.yaml:6:5: read tree: the link etc leads out"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// A dynamic program of this machine starts on its host.
func TestAProgramOfTheHost(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh")
	}
	if sh, err = filepath.EvalSymlinks(sh); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, "sh", string(text), 0o755)
	s, err := lookAtFiles(t, dir, "files: [{from: sh, to: /opt/sh}]\ncontenders: [{name: base, driver: bare}, "+
		"{name: x, driver: imaged, "+
		"image: \"debian:bookworm\"}]\ncells: [{name: run, workload: command, params: {argv: [/opt/sh, -c, exit]}}]\n")
	if err != nil || whyNot(t, s, "base") != "" || whyNot(t, s, "x") != "" || len(s.Absent) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
