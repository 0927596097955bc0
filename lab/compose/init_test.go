package compose

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bakeoff/base/lists"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

// here is a machine on which some drivers work.
func here(cat manifest.Catalogue, works ...string) []Here {
	return lists.Map(cat.Drivers, func(d manifest.DriverEntry) Here {
		for _, w := range works {
			if w == d.Name {
				return Here{Driver: d.Name}
			}
		}
		return Here{Driver: d.Name, Why: d.Name + " is not installed"}
	})
}

// valid reads and plans a lab file.
func valid(t *testing.T, f File, cat manifest.Catalogue) *manifest.Lab {
	t.Helper()
	lab, err := f.Load(cat)
	if err == nil {
		_, err = plan.Expand(lab, cat, 1, "test")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, f.Text)
	}
	return lab
}

// Each command line of init stands for a lab file below testdata/init.
func TestInit(t *testing.T) {
	cat := catalogue()
	for name, r := range map[string]InitRequest{
		"nothing": {},
		"command": {Names: []string{"crun", "bwrap:debian:trixie"}, Argv: []string{"./job", "--size", "big one"}},
		"absent":  {Names: []string{"docker", "files", "syscall"}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Line, r.Dir, r.Here = append([]string{"bakeoff", "init"}, r.Names...), "/home/me/My Lab", here(cat, "host", "oci",
				"bwrap", "qemu")
			f, err := Init(r, cat)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "init", name+".yaml"), f.Text)
			valid(t, f, cat)
		})
	}
}

// Every driver and every workload gives a valid file, whatever works here.
func TestInitOfEverything(t *testing.T) {
	cat := catalogue()
	for i, d := range cat.Drivers {
		for k, w := range cat.Workloads {
			if i != k%len(cat.Drivers) && i > 0 && w.Volume == "" {
				continue // every driver, every workload, and every driver with every volume
			}
			r := InitRequest{Names: []string{d.Name, w.Name}, Dir: "/", Here: here(cat, "host", "bwrap", "chroot")}
			if w.Name == commandName {
				r.Argv = []string{"true"}
			}
			f, err := Init(r, cat)
			if err != nil {
				if strings.Contains(err.Error(), "needs a volume, and no backing works with") {
					continue
				}
				t.Errorf("%q: %v", r.Names, err)
				continue
			}
			lab := valid(t, f, cat)
			if len(lab.Contenders) < 2 || lab.Name != "lab" {
				t.Errorf("%q: %d contenders, name %s", r.Names, len(lab.Contenders), lab.Name)
			}
		}
	}
}

// What the comments offer is valid, too: other drivers, options, parameters.
func TestInitWithItsComments(t *testing.T) {
	cat := catalogue()
	f, err := Init(InitRequest{Names: []string{"microvm", "docker", "http"}, Dir: "/x",
		Here: here(cat, "host", "oci", "bwrap",
			"podman")}, cat)
	if err != nil {
		t.Fatal(err)
	}
	text := string(f.Text)
	offered := 0
	for _, pattern := range []string{`(?m)^(  )# (- \{name: .*)$`, `(?m)^(    )# ([a-z-]+: [^ …\[]\S*  .*)$`,
		`(?m)^(    )# (params:)$`, `(?m)^(    )#   ([a-z0-9-]+: [^ …\[]\S*  .*)$`, `(?m)^(  )# (looks: .*)$`} {
		re := regexp.MustCompile(pattern)
		offered += len(re.FindAllString(text, -1))
		with := "$1$2"
		if strings.Contains(pattern, "#   ") {
			with = "$1  $2"
		}
		text = re.ReplaceAllString(text, with)
	}
	if offered < 20 {
		t.Errorf("only %d lines are offered in\n%s", offered, text)
	}
	lab, err := manifest.Parse("bakeoff.yaml", []byte(text), cat, "ci")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(lab.Contenders) != 6 {
		t.Errorf("%d contenders in\n%s", len(lab.Contenders), text)
	}
}

func TestInitMistakes(t *testing.T) {
	cat := catalogue()
	for _, c := range []struct{ names, want string }{
		{"crnu", `argument "crnu": there is no driver and no workload "crnu"; did you mean "crun"?`},
		{"fils", `argument "fils": there is no driver and no workload "fils"; did you mean "files"?`},
		{"command", `argument "command": the workload has no command; write the command after --`},
		{"files files", `argument "files" occurs twice; remove one of them`},
		{"crun crun", `argument "crun" is the same environment as argument "crun"; remove one; ` +
			"bakeoff compares the baseline with a twin of itself in any case"},
		{"host:debian:bookworm", `argument "host:debian:bookworm": driver host does not use an image; write host`},
		{"vmm zone files", "workload files needs a volume, and no backing works with vmm or zone; name other drivers, or " +
			"another workload"},
	} {
		if _, err := Init(InitRequest{Names: strings.Fields(c.names)}, cat); fmt.Sprint(err) != c.want {
			t.Errorf("%s:\n%v, want\n%s", c.names, err, c.want)
		}
	}
}
