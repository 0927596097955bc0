package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bakeoff/prepare/install/plan"
)

// archive is an archive of Debian for the stand-ins of apt and mmdebstrap. Its InRelease is the
// digest that the list of each package has.
type archive struct {
	url     string
	spoiled string // a package that was changed after it was listed
	outage
}

func newArchive(t *testing.T) *archive {
	a := &archive{}
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	a.url = s.URL + "/debian"
	return a
}

func (a *archive) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name := filepath.Base(q.URL.Path)
	switch {
	case a.refuses(w):
	case name == "InRelease" && strings.Contains(q.URL.Path, "/dists/"):
		fmt.Fprintln(w, "a list of packages")
	case name == a.spoiled+".deb":
		fmt.Fprint(w, "somebody else's")
	case strings.HasSuffix(name, ".deb"):
		fmt.Fprint(w, "the package "+name)
	default:
		http.NotFound(w, q)
	}
}

func (*fake) curl(args []string) error {
	_, err := get(args[len(args)-1])
	return err
}

// mirrorOf is the first repository of lines of sources.list.
func mirrorOf(lines string) string {
	for _, word := range strings.Fields(lines) {
		if strings.HasPrefix(word, "http") {
			return word
		}
	}
	return ""
}

func aptMirror(root string) (string, error) {
	text, err := os.ReadFile(root + "/etc/apt/sources.list")
	if err == nil && !strings.Contains(string(text), "[signed-by=/") {
		err = errors.New("E: The repository is not signed.")
	}
	return mirrorOf(string(text)), err
}

// aptUpdate downloads the lists of the sources of a root.
func aptUpdate(root string) error {
	url, err := aptMirror(root)
	if err != nil {
		return err
	}
	for _, suite := range []string{"trixie", "trixie-updates", "trixie-security", "bookworm", "bookworm-updates",
		"bookworm-security"} {
		text, err := get(url + "/dists/" + suite + "/InRelease")
		name := root + "/var/lib/apt/lists/mirror_dists_" + suite + "_InRelease"
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644))
		if err != nil {
			return err
		}
	}
	return nil
}

// aptInstall sees that the archives of a root have packages. It downloads and verifies those that
// they lack, if it may.
func aptInstall(root string, packages []string, download bool) error {
	url, err := aptMirror(root)
	if err != nil {
		return err
	}
	if lists, _ := filepath.Glob(root + "/var/lib/apt/lists/*_InRelease"); len(lists) == 0 && len(packages) > 0 {
		return errors.New("E: Unable to locate package " + packages[0])
	}
	status, err := os.ReadFile(root + "/var/lib/dpkg/status")
	if err != nil {
		return err
	}
	for _, p := range packages {
		if p == "linux-image-amd64" || p == "linux-headers-amd64" { // it depends on that of a version
			packages = append(slices.Clip(packages), strings.Replace(p, "amd64", "6.12.30-amd64", 1))
		}
	}
	for _, p := range packages {
		file := root + "/var/cache/apt/archives/" + p + "_1_amd64.deb"
		if _, err := os.Stat(file); err == nil || strings.Contains(string(status), "Package: "+p+"\n") {
			continue
		}
		if !download {
			return errors.New("E: Some files failed to download")
		}
		if p == os.Getenv("FAKE_MISSING") {
			return errors.New("E: Unable to locate package " + p)
		}
		text, err := get(url + "/pool/" + p + ".deb")
		if err != nil {
			return fmt.Errorf("E: Failed to fetch %s: %w", p, err)
		}
		if got, want := sha256.Sum256(text), sha256.Sum256([]byte("the package "+p+".deb")); got != want {
			return fmt.Errorf("E: Failed to fetch %s: Hash Sum mismatch", p)
		}
		part := fmt.Sprintf("%s.%d", file, os.Getpid()) // a process that was killed leaves no half of a file
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(part, text, 0o644), os.Rename(part, file))
		if err != nil {
			return err
		}
	}
	return nil
}

// aptGet is apt-get of the rescue system: it works in the folder of APT_CONFIG only.
func (*fake) aptGet(args []string) error {
	config, err := os.ReadFile(os.Getenv("APT_CONFIG"))
	if err != nil {
		return err
	}
	_, root, _ := strings.Cut(string(config), `Dir "`)
	root, _, _ = strings.Cut(root, `"`)
	if args[0] == "update" {
		return aptUpdate(root)
	}
	if args[0] != "full-upgrade" || !slices.Contains(args, "--download-only") {
		return fmt.Errorf("it would change the rescue system: %q", args)
	}
	var packages []string
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			packages = append(packages, a)
		}
	}
	return aptInstall(root, packages, !slices.Contains(args, "--no-download"))
}

// mmdebstrap makes the tree that base-system makes, where there is none, or an archive of it. It can
// also only see that there are packages of some names.
func (f *fake) mmdebstrap(args []string) error {
	if args[0] == "--simulate" {
		names, _ := strings.CutPrefix(args[2], "--include=")
		if missing := os.Getenv("FAKE_MISSING"); missing != "" && slices.Contains(strings.Split(names, ","), missing) {
			return errors.New("Unable to locate package " + missing)
		}
		return nil
	}
	if _, err := get(mirrorOf(strings.Join(args, " ")) + "/dists/trixie/InRelease"); err != nil {
		return err
	}
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "/") })
	if to := args[at]; strings.HasSuffix(to, ".tar") {
		root, err := os.MkdirTemp("", "mmdebstrap.") // in TMPDIR
		if err != nil {
			return err
		}
		defer os.RemoveAll(root)
		return f.baseArchive(root, to)
	}
	if _, err := os.Lstat(args[at] + "/etc/passwd"); err == nil {
		return errors.New("mknod: /dev/console: File exists") // a second run into what the first one left
	}
	return f.debianBase(args[at])
}

func (f *fake) debianBase(root string) error {
	return errors.Join(f.unpack(root, "base-system"), os.MkdirAll(root+"/var/lib/apt/lists", 0o755),
		os.MkdirAll(root+"/var/cache/apt/archives", 0o755), os.MkdirAll(root+"/var/lib/dpkg", 0o755),
		os.WriteFile(root+"/var/lib/dpkg/status", []byte("Package: tzdata\nStatus: install ok installed\n\n"), 0o644))
}

func (f *fake) baseArchive(root, to string) error {
	return errors.Join(f.debianBase(root), os.Chmod(root, 0o755), f.real("tar", "-C", root, "-cf", to, "."))
}

// destroyed reports whether a step of an installation that destroys something began.
func destroyed(record string) bool { return inJournal(record, eventStart, "partition") }

// TestMirrorGone installs Debian and Void from a mirror that is gone when the first step that destroys
// something begins. Each installation is killed before and after that, and loses its power when the new
// system has the packages. Nothing asks the mirror again.
func TestMirrorGone(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	debian := []string{"/var/lib/dpkg/info/vim.list", "/var/lib/dpkg/info/systemd-resolved.list",
		"/var/lib/apt/lists/mirror_dists_trixie_InRelease"}
	kills := []string{"download-status:mid", "download-lists:mid", "download:mid", "download:ran", "partition:ran",
		"base:mid", "lists:ran", "cache:mid", "tools:mid", "packages:noted"}
	for _, c := range []struct {
		name, spec string
		kills      []string // the power is lost at the last one
		files      []string // of the new system
		cache      string   // it is left empty
	}{
		{"mmdebstrap", debianSpec, kills, debian, "/var/cache/apt/archives/*"},
		{"archive", debianSpec + "base: {file: %[1]s/base.tar, sha256: %[6]s}\n", kills, debian, "/var/cache/apt/archives/*"},
		{"void", strings.Replace(voidSpec, "amd", "intel", 1) + "packages: [tmux]\n",
			[]string{"download:mid", "download:ran", "partition:ran", "lists:mid", "cache:mid", "base:mid", "kernel:ran",
				"microcode:mid", "desktop:noted"},
			[]string{"/var/db/xbps/intel-ucode", "/var/db/xbps/flatpak", "/var/db/xbps/tmux"}, "/var/cache/xbps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, 1)
			text := c.spec
			if c.name == "archive" {
				if err := (&fake{}).baseArchive(t.TempDir(), m.dir+"/base.tar"); err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(m.dir + "/base.tar")
				if err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(b)
				text = strings.ReplaceAll(text, "%[6]s", hex.EncodeToString(sum[:]))
			}
			p := m.plan(text)
			m.powerOn()
			record := m.begin(p, "gone")
			mirror, system := &m.deb.outage, "debian"
			if c.name == "void" {
				mirror, system = &m.xbps.outage, "void"
			}
			mirror.gone = func() bool { return destroyed(record) }
			for n, at := range c.kills {
				id, how, _ := strings.Cut(at, ":")
				i := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.ID == id })
				out, err := m.run(record, fmt.Sprintf("ENGINE_KILL=%d:%s", i, how))
				if err == nil || !strings.Contains(out, "killed at ") { // there or later, if the step was done
					t.Fatalf("not killed at %s: %v\n%s", at, err, out)
				}
				m.unlocked(record)
				if n == len(c.kills)-1 {
					m.cutPower()
					m.powerOn()
				}
			}
			if out, err := m.run(record); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if n := mirror.refused.Load(); n > 0 || !mirror.gone() {
				t.Errorf("%d requests after the mirror was gone", n)
			}
			root := m.dir + "/keep/pool/zroot/ROOT/" + system
			for _, name := range c.files {
				if _, err := os.Stat(root + name); err != nil {
					t.Error(err)
				}
			}
			if left, _ := filepath.Glob(root + c.cache); len(left) > 0 {
				t.Errorf("the new system keeps %q", left)
			}
			if out, err := m.run(record, "ENGINE_VERIFY=1"); err != nil {
				t.Errorf("verify: %v\n%s", err, out)
			}
		})
	}
}

// inside runs a command in the namespace of the machine.
func (m *machine) inside(argv ...string) string {
	m.t.Helper()
	return m.must(append([]string{"nsenter", "--mount", "--target", strconv.Itoa(m.holder.Process.Pid), "--"}, argv...)...)
}

// untouched asserts that the disk is as empty as at the beginning.
func (m *machine) untouched() {
	m.t.Helper()
	if got := m.must("wipefs", m.disk); got != "" {
		m.t.Errorf("the disk was touched:\n%s", got)
	}
}

// TestDownload stops an installation of Debian before the disk is touched: if the file system for
// the packages is too small, if a package is not the listed one, and if the repositories lack one.
// It continues when there is more room, and replaces what an older installation downloaded.
func TestDownload(t *testing.T) {
	if testing.Short() {
		t.Skip("begins an installation on a loop device")
	}
	m := newMachine(t, 1)
	m.powerOn()
	m.inside("mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", "/var/tmp")
	m.inside("mkdir", "-p", "/var/tmp/bakeoff-install/debian")
	m.inside("cp", "/etc/passwd", "/var/tmp/bakeoff-install/debian/base.tar") // no archive
	record := m.begin(m.plan(debianSpec), "download")
	for _, c := range []struct{ env, spoiled, want string }{
		{"LC_ALL=C", "", "of free space, and the packages need 1280MiB"},
		{"LC_ALL=C", "zfs-dkms", "Failed to fetch zfs-dkms: Hash Sum mismatch"},
		{"FAKE_MISSING=vim", "", "Unable to locate package vim"},
	} {
		m.deb.spoiled = c.spoiled
		out, err := m.run(record, c.env)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v, want %s\n%s", err, c.want, out)
		}
		m.untouched()
		m.inside("mount", "-o", "remount,size=3g", "/var/tmp")
	}
	if out, err := m.run(record); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestMirrorKey refuses a file that is not a public key before the disk is touched. With the key, the
// new system believes only this key for the mirror.
func TestMirrorKey(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	m := newMachine(t, 1)
	m.powerOn()
	key := m.dir + "/mirror.asc"
	record := m.begin(m.plan(debianSpec+"mirror_key: "+key+"\n"), "key")
	const begins = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
	for _, c := range [][2]string{{"", "No such file"}, {"<!DOCTYPE html>\n", "printed <!DOCTYPE html>"},
		{strings.Replace(begins, "PUBLIC", "PRIVATE", 1), "PRIVATE KEY"}, {begins + "key\n", ""}} {
		if c[0] != "" {
			if err := os.WriteFile(key, []byte(c[0]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := m.run(record)
		if c[1] == "" {
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			continue
		}
		if err == nil || !strings.Contains(out, "public key of the repository") || !strings.Contains(out, c[1]) {
			t.Errorf("%v, want %s\n%s", err, c[1], out)
		}
		m.untouched()
	}
	root := m.dir + "/keep/pool/zroot/ROOT/debian/etc/apt/"
	sources, err := os.ReadFile(root + "sources.list")
	if err != nil || strings.Count(string(sources), "[signed-by=/etc/apt/keyrings/mirror.asc] "+m.deb.url) != 2 ||
		!strings.Contains(string(sources), "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://security.") {
		t.Errorf("%v\n%s", err, sources)
	}
	if text, err := os.ReadFile(root + "keyrings/mirror.asc"); err != nil || string(text) != begins+"key\n" {
		t.Errorf("%v: the new system has the key %q", err, text)
	}
	if out, err := m.run(record, "ENGINE_VERIFY=1"); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}
