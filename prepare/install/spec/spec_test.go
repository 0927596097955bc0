package spec

import (
	"os"
	"strings"
	"testing"
)

// TestMistakes finds all mistakes at once, with lines, and shows no secret.
func TestMistakes(t *testing.T) {
	src := `schema: bakeoff/install/v1
recipe: void-zsf
disk: /dev/sda
hostname: Box_1
hostnam: x
timezone: ../../etc/shadow
mirror: https://repo.example/current
zfsbootmenu: {file: /zbm.EFI, sha256: abc}
hibernate: true
secrets:
  pool: hunter2hunter2
  root: prompt
users:
  - {name: root, password: prompt}
`
	_, err := Parse("i.yaml", []byte(src))
	if err == nil {
		t.Fatal("no mistake found")
	}
	for _, want := range []string{
		`i.yaml:2:`, `i.yaml:3:7: disk`, `i.yaml:4:`, `i.yaml:5:1: unknown key "hostnam"`, `i.yaml:6:`,
		"zfsbootmenu.sha256", "i.yaml:11:9: secrets.pool", "secrets.swap is missing", "i.yaml:14:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the message shows a secret:\n%v", err)
	}
}

func FuzzParse(f *testing.F) {
	src, err := os.ReadFile("../plan/testdata/article.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	f.Add([]byte("schema: bakeoff/install/v1\nusers: [{}, 3]\nsecrets: []\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Parse("f", src)
		if err == nil && (s.Hostname == "" || !strings.HasPrefix(s.Disk, "/dev/disk/by-id/")) {
			t.Errorf("accepted %+v", s)
		}
	})
}
