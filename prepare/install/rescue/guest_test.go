package rescue

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/prepare/install/spec"
	"bakeoff/provision/guest/qemu"
)

const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA comment of the key\n"

func TestBoot(t *testing.T) {
	s := System{Dir: "/cache/rescue"}
	m := qemu.Machine{Disks: []qemu.Disk{{Serial: "image-1"}}}
	if err := s.Boot(&m, key, "http://127.0.0.1:3128"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`root=LABEL=rescue`,
		` "systemd.set_credential=ssh.authorized_keys.root:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"`,
		` "systemd.set_credential=tmpfiles.extra:f+ /etc/environment 0644 root root - http_proxy=http://10.0.2.2:3128"`} {
		if !strings.Contains(m.Append, want) {
			t.Errorf("%s lacks %s", m.Append, want)
		}
	}
	// Nothing that the rescue system writes reaches the cache.
	if last := m.Disks[len(m.Disks)-1]; len(m.Disks) != 2 || last.Path != "/cache/rescue/disk" || !last.Snapshot {
		t.Errorf("%+v", m.Disks)
	}
	if err := s.Boot(&m, "", ""); err == nil {
		t.Error("no key was taken")
	}
}

func TestProxyLine(t *testing.T) {
	for proxy, want := range map[string]string{"": "", "http://localhost/": "http://10.0.2.2:80/",
		"http://[::1]:1": "http://10.0.2.2:1", "http://proxy.example:80": "http://proxy.example:80"} {
		got, err := proxyLine(proxy)
		if err != nil || !strings.HasSuffix(strings.TrimSuffix(got, `"`), want) || proxy == "" && got != "" {
			t.Errorf("%s: %s, %v", proxy, got, err)
		}
	}
	for _, proxy := range []string{"proxy:3128", `http://a" init=/bin/sh "`, "http://user:word@proxy:1", "http://a b"} {
		if got, err := proxyLine(proxy); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %s, %v", proxy, got, err)
		}
	}
}

// The variables of the firmware stay with the image. A command that does not write works on a
// copy.
func TestVariables(t *testing.T) {
	empty, err := os.ReadFile(qemu.OVMFVariables)
	if err != nil {
		t.Skip("needs the firmware OVMF: apt-get install ovmf")
	}
	i := &Image{Path: filepath.Join(t.TempDir(), "out.raw"), New: true}
	made := func(write bool) string {
		t.Helper()
		name, err := Options{Dir: t.TempDir(), Images: []*Image{i}, Write: write}.variables()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if (name == i.Variables()) != write {
			t.Errorf("write %v: the firmware writes to %s", write, name)
		}
		return string(text)
	}
	if made(false) != string(empty) || made(true) != string(empty) {
		t.Error("the firmware of a new image has variables")
	}
	entries := slices.Clone(empty)
	entries[len(entries)-1] = 1
	if err := os.WriteFile(i.Variables(), entries, 0o600); err != nil {
		t.Fatal(err)
	}
	i.New = false
	if made(false) != string(entries) || made(true) != string(entries) {
		t.Error("the variables of an image were lost")
	}
	i.New = true
	if made(true) != string(empty) {
		t.Error("a new image has the variables of an older one")
	}
	i.New = false
	if err := os.WriteFile(i.Variables(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Options{Dir: t.TempDir(), Images: []*Image{i}, Write: true}.variables()
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "has 1 bytes") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestOffer(t *testing.T) {
	s := System{Release: "trixie", Version: "6.12-cloud-amd64", Base: spec.Archive{File: "/root/base.tar"},
		Modules: spec.Archive{File: "/root/zfs"}}
	for _, tt := range []struct {
		name string
		of   spec.Spec
		want bool
	}{
		{"its kernel", spec.Spec{Recipe: "debian-zfs", Release: "trixie", Kernel: Kernel}, true},
		{"another kernel", spec.Spec{Recipe: "debian-zfs", Release: "trixie", Kernel: "linux-image-amd64"}, false},
		{"another release", spec.Spec{Recipe: "debian-zfs", Release: "bookworm", Kernel: Kernel}, false},
		{"another recipe", spec.Spec{Recipe: "void-zfs", Release: "trixie", Kernel: Kernel}, false},
		{"archives of its own", spec.Spec{Recipe: "debian-zfs", Release: "trixie", Kernel: Kernel,
			Base: spec.Archive{File: "/base.tar"}}, false},
	} {
		got := tt.of
		s.Offer(&got)
		want := tt.of
		if tt.want {
			want.Base, want.Modules, want.Kernel = s.Base, s.Modules, "linux-image-6.12-cloud-amd64"
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}
}

// The person who waits sees the stages of a build, and its last line from time to time.
func TestProgress(t *testing.T) {
	var said []string
	p := &progress{say: func(line string) { said = append(said, line) }}
	for _, text := range []string{"# install\nI: runn", "ing apt\x1b[0m\n", "# make\n\n", "half"} {
		if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if want := []string{"rescue system: install", "rescue system: make"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if got := plain([]byte("\x1b[2J\x1b[01;01H\x1b[=3hWelcome\x1b[0;38:5:185m to")); got != "Welcome to" {
		t.Errorf("%q", got)
	}
	if p.last != "# make" || !strings.HasSuffix(p.text(), "half") || strings.Contains(p.last, "\x1b") {
		t.Errorf("%q, %q", p.last, p.text())
	}
}

// What is missing is named before anything is built.
func TestCheck(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Check()
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "apt-get install qemu-system-x86") {
		t.Errorf("%v", err)
	}
}

func TestOpenDamaged(t *testing.T) {
	dir := t.TempDir()
	_, err := open(dir, "trixie")
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "0 archives") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "zfs-2.3.9.dkms.tar.gz"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, "trixie"); !fault.Is(err, fault.Lab) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for name, text := range map[string]string{versionFile: "6.12\n", digestFile: "12\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := open(dir, "trixie")
	if err != nil || s.Version != "6.12" || s.Base.SHA256 != "12" || s.ZFS() != "2.3.9" ||
		s.Modules.File != "/root/zfs-2.3.9.dkms.tar.gz" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestBasePackages: Debian 12 has no package systemd-cryptsetup, without which Debian 13 opens
// nothing.
func TestBasePackages(t *testing.T) {
	for release, want := range map[string]bool{"bookworm": false, "trixie": true} {
		all := strings.Split(basePackagesOf(release), ",")
		if slices.Contains(all, "systemd-cryptsetup") != want || !slices.Contains(all, "cryptsetup") ||
			!slices.Contains(all, "dracut") {
			t.Errorf("%s: %q", release, all)
		}
	}
}
