package probe

import (
	"archive/tar"
	"bytes"
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn/local"
)

// TestConfiguration reads the configuration of a machine. No content of a key is in the facts.
func TestConfiguration(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct{ name, text, link string }{
		{"etc/fstab", "//nas/a /a cifs username=a,password=hunter2 0 0\nUUID=1 /boot/efi vfat nofail 0 0\n", ""},
		{"etc/hostid", "\x1a\xde\x00\x04", ""}, {"etc/localtime", "", "/usr/share/zoneinfo/Europe/Rome"},
		{"etc/apt/sources.list", "deb https://me:hunter2@deb.example/debian trixie main\n", ""},
	} {
		h := &tar.Header{Name: f.name, Size: int64(len(f.text)), Typeflag: tar.TypeReg, Mode: 0o644}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := machineOfTheGuide()
	find := slices.Concat([]string{"find"}, paths(), findTests)
	r.commands[strings.Join(find, " ")] = "/etc/fstab\n/etc/hostid\n/etc/localtime\n/etc/apt/sources.list\n" +
		"/etc/crypttab\n/etc/zfs/z.key\n/boot/volume.key\n/etc/zfs/deep/z.key\n"
	r.commands["tar -C / -cf - -- etc/apt/sources.list etc/crypttab etc/fstab etc/hostid etc/localtime"] = archive.String()
	s, err := Read(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := JSON(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Error("the facts contain a password")
	}
	again, err := installed.Read("facts", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	f := again.Files
	if !strings.Contains(f["etc/fstab"].Text, "password=withheld 0 0\nUUID=1 ") ||
		string(f["etc/hostid"].Data) != "\x1a\xde\x00\x04" || f["etc/localtime"].Link != "/usr/share/zoneinfo/Europe/Rome" ||
		!strings.Contains(f["etc/apt/sources.list"].Text, "https://deb.example/debian") {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"etc/crypttab", "etc/zfs/z.key", "etc/z.key", "boot/volume.key"} {
		if !f[name].Withheld { // the first could not be read
			t.Errorf("%s is %+v, not withheld", name, f[name])
		}
	}
	if len(f) != 8 {
		t.Errorf("%d files: %+v", len(f), f)
	}
}

// TestConfigurationHere reads the configuration of the machine of the test with its own programs.
func TestConfigurationHere(t *testing.T) {
	m := machine{t.Context(), local.Conn{}}
	all := m.configuration(nil)
	if f, ok := all["etc/hostname"]; ok && strings.TrimSpace(f.Text) != strings.TrimSpace(m.file("/etc/hostname")) {
		t.Errorf("etc/hostname is %+v", f)
	}
	for name := range all {
		if there, _ := installed.Configured(name); !there {
			t.Errorf("lint does not read %s", name)
		}
	}
	if len(all) == 0 {
		t.Error("no file")
	}
}
