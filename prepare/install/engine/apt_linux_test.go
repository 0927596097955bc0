package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bakeoff/prepare/install/plan"
	"bakeoff/prepare/install/spec"
)

// signed is an archive of Debian for the real apt, and a proxy for every mirror. The content of its
// packages is a text: apt unpacks nothing.
type signed struct {
	t        *testing.T
	dir      string // of the keys, which gpg made
	packages []string
	mu       sync.Mutex
	spoiled  string            // a package that was changed after it was listed
	stalled  string            // a package of which only the half comes
	files    map[string][]byte // packages that are no texts
	asked    map[string]string // ranges of requests of packages
	half     chan struct{}     // closed when the half was sent
}

func (s *signed) text(name string) []byte {
	if text, ok := s.files[name]; ok {
		return text
	}
	return bytes.Repeat([]byte(name+"\n"), 1<<12)
}

// aptKernel is the kernel on which linux-image-amd64 depends.
const aptKernel = "6.12.9+bpo-amd64"

func (s *signed) list() []byte {
	var b bytes.Buffer
	for _, p := range s.packages {
		text := s.text(p)
		if kind, ok := strings.CutSuffix(p, "-amd64"); ok && (kind == "linux-image" || kind == "linux-headers") {
			fmt.Fprintf(&b, "Depends: %s-%s\n", kind, aptKernel)
		}
		fmt.Fprintf(&b, "Package: %[1]s\nVersion: 2\nArchitecture: amd64\nMaintainer: tests\nDescription: %[1]s\n"+
			"Filename: pool/%[1]s_2_amd64.deb\nSize: %[2]d\nSHA256: %[3]x\n\n", p, len(text), sha256.Sum256(text))
	}
	return b.Bytes()
}

// gpg runs gpg with the keys of the test.
func (s *signed) gpg(in []byte, args ...string) []byte {
	cmd := exec.Command("gpg", append([]string{"--homedir", s.dir, "--batch", "--quiet", "--no-tty", "--pinentry-mode",
		"loopback", "--passphrase", ""}, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("gpg %q: %v", args, err)
	}
	return out
}

func (s *signed) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := path.Base(q.URL.Path)
	_, suite, _ := strings.Cut(path.Dir(q.URL.Path), "/dists/")
	switch {
	case name == "InRelease":
		list := s.list()
		text := fmt.Sprintf("Origin: tests\nSuite: %[1]s\nCodename: %[1]s\nDate: %[2]s\nArchitectures: amd64\n"+
			"Components: main contrib non-free-firmware\nSHA256:\n %[3]x %[4]d main/binary-amd64/Packages\n", suite,
			time.Now().UTC().Format(time.RFC1123), sha256.Sum256(list), len(list))
		for _, c := range []string{"contrib", "non-free-firmware"} {
			text += fmt.Sprintf(" %x 0 %s/binary-amd64/Packages\n", sha256.Sum256(nil), c)
		}
		_, _ = w.Write(s.gpg([]byte(text), "--local-user", "mirror", "--clearsign"))
	case name == "Packages" && strings.HasSuffix(q.URL.Path, "/main/binary-amd64/Packages"):
		_, _ = w.Write(s.list())
	case name == "Packages":
	case strings.HasSuffix(name, ".deb"):
		pkg, _, _ := strings.Cut(name, "_")
		s.asked[pkg] += "[" + q.Header.Get("Range") + "]"
		text := s.text(pkg)
		if pkg == s.spoiled {
			text = bytes.ToUpper(text)
		}
		if pkg == s.stalled {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			w.Header().Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
			_, _ = w.Write(text[:len(text)/2])
			_ = http.NewResponseController(w).Flush()
			close(s.half)
			s.mu.Unlock()
			<-q.Context().Done()
			s.mu.Lock()
			return
		}
		http.ServeContent(w, q, name, time.Unix(1e9, 0), bytes.NewReader(text))
	default:
		http.NotFound(w, q)
	}
}

// TestApt executes the steps of a plan that download packages with the real apt, from an archive that
// is signed by a key of the test. apt refuses another key and a changed package, continues where it
// was killed, and needs no mirror for the packages of any later step. The kernel of the archive is the
// newest that its ZFS supports.
func TestApt(t *testing.T) {
	if testing.Short() {
		t.Skip("runs apt many times")
	}
	for _, name := range []string{"apt-get", "gpg", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: apt-get install %s", name,
				map[string]string{"apt-get": "apt", "gpg": "gpg", "dpkg-deb": "dpkg"}[name])
		}
	}
	dir := t.TempDir()
	s := &signed{t: t, dir: dir + "/keys", asked: map[string]string{}, half: make(chan struct{})}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", s.dir, "--kill", "all").Run() })
	for _, name := range []string{"mirror", "other"} {
		s.gpg(nil, "--quick-gen-key", name, "ed25519", "sign", "never")
		if err := os.WriteFile(dir+"/"+name+".asc", s.gpg(nil, "--armor", "--export", name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(s)
	defer server.Close()
	p := aptPlan(t, dir, "packages: [vim]\n", dir+"/d")
	s.packages = append(slices.Clone(named(p.Step("download").Argv)), "base-files", "linux-image-"+aptKernel,
		"linux-headers-"+aptKernel)
	s.files = map[string][]byte{"zfs-dkms": debOfZFS(t, "2.3.2", "6.12")}

	run := func(id, key string, argv []string) (string, error) {
		step := p.Step(id)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "http_proxy=" + server.URL}
		if step.Stdin != nil {
			// That of the security updates is Debian's.
			text := strings.ReplaceAll(step.Stdin.Text, "/usr/share/keyrings/debian-archive-keyring.gpg", dir+"/mirror.asc")
			text = strings.ReplaceAll(text, dir+"/mirror.asc] http://mirror.invalid", dir+"/"+key+".asc] http://mirror.invalid")
			cmd.Stdin = strings.NewReader(text)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(id, key string) {
		t.Helper()
		if out, err := run(id, key, p.Step(id).Argv); err != nil {
			t.Fatalf("%s: %v\n%s", id, err, out)
		}
	}
	for _, id := range []string{"download-clear", "download-folder", "download-room", "download-status",
		"download-sources", "download-config"} {
		must(id, "other")
	}
	out, err := run("download-lists", "", p.Step("download-lists").Argv)
	if got := cause(out); err == nil || !strings.Contains(got, "NO_PUBKEY") || !strings.Contains(got, "is not signed") {
		t.Errorf("another key gave %v: %s\n%s", err, got, out)
	}
	must("download-sources", "mirror")
	must("download-lists", "")

	s.spoiled = "zfs-dkms"
	out, err = run("download", "", p.Step("download").Argv)
	if err == nil || !strings.Contains(cause(out), "Hash Sum mismatch") {
		t.Errorf("a changed package gave %v\n%s", err, out)
	}
	if _, err := os.Stat(dir + "/d/debian/var/cache/apt/archives/zfs-dkms_2_amd64.deb"); err == nil {
		t.Error("a changed package is in the archives")
	}
	s.killed(p, server.URL, dir)
	check := p.Step("download").Checks[0].Argv
	if out, err := run("download", "", check); err == nil {
		t.Errorf("packages are there that were not downloaded:\n%s", out)
	}
	must("download", "")
	if got := s.asked["zfs-dkms"]; !strings.Contains(got, "[bytes=") {
		t.Errorf("the package whose download was interrupted was asked for with the ranges %s", got)
	}
	for pkg, ranges := range s.asked {
		if pkg != "zfs-dkms" && strings.Count(ranges, "[") != 1 {
			t.Errorf("%s was downloaded %d times", pkg, strings.Count(ranges, "["))
		}
	}
	server.Close()
	archives := dir + "/d/debian/var/cache/apt/archives/"
	must("module-script", "")
	fits := func(want string) {
		t.Helper()
		if out, err := run("module-fits", "", p.Step("module-fits").Argv); err != nil || !strings.Contains(out, want) ||
			(out == "") != (want == "") {
			t.Errorf("module-fits: %v\n%s\nwant %q", err, out, want)
		}
	}
	fits("")
	headers := archives + "linux-headers-" + aptKernel + "_2_amd64.deb"
	if err := os.Rename(headers, dir+"/headers"); err != nil {
		t.Error(err)
	}
	fits("the headers of the kernel " + aptKernel + " are missing")
	if err := os.Rename(dir+"/headers", headers); err != nil {
		t.Error(err)
	}
	if out, err := run("download", "", check); err != nil {
		t.Errorf("the check of the downloads: %v\n%s", err, out)
	}
	for _, id := range []string{"tools", "kernel", "zfs", "packages", "loader", "resolved"} {
		argv := slices.Concat(check[:4], []string{"install", "--download-only", "--no-download", "-y"},
			named(p.Step(id).Argv))
		if out, err := run("download", "", argv); err != nil {
			t.Errorf("%s lacks packages: %v\n%s", id, err, out)
		}
	}
	if _, err := os.Stat(archives + "base-files_2_amd64.deb"); err != nil {
		t.Errorf("no newer version of a package of the base system: %v", err)
	}
}

// killed ends apt in the middle of a package.
func (s *signed) killed(p *plan.Plan, proxy, dir string) {
	s.t.Helper()
	s.mu.Lock()
	s.spoiled, s.stalled = "", "zfs-dkms"
	s.mu.Unlock()
	argv := p.Step("download").Argv
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "http_proxy=" + proxy}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.half:
	case <-time.After(time.Minute):
		s.t.Error("apt does not ask for the package")
	}
	part := dir + "/d/debian/var/cache/apt/archives/partial/zfs-dkms_2_amd64.deb"
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(part); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(end) {
			s.t.Errorf("%s does not appear", part)
			break
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
	s.mu.Lock()
	s.stalled = ""
	s.mu.Unlock()
}

// named are the packages of a command of apt-get.
func named(argv []string) []string {
	at := slices.IndexFunc(argv, func(a string) bool { return a == "-y" }) + 1
	if argv[at] == "-o" {
		at += 2
	}
	return argv[at:]
}

// aptPlan is the plan for a base system in an archive that has an old package. more is added to the
// specification, and the packages are downloaded to a folder, or to none.
func aptPlan(t *testing.T, dir, more, downloads string) *plan.Plan {
	t.Helper()
	status := "Package: base-files\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\nMaintainer: tests\n" +
		"Description: old\n\n"
	root := dir + "/root/var/lib/dpkg"
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/status", []byte(status), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-C", dir+"/root", "-cf", dir+"/base.tar", ".").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("schema: %s\nrecipe: debian-zfs\nhostname: box\ndisk: /dev/disk/by-id/x\n"+
		"base: {file: %[2]s/base.tar, sha256: %[3]s}\nmirror: http://mirror.invalid/debian\nmirror_key: "+
		"%[2]s/mirror.asc\ndownload_dir: %[4]s\n"+
		"secrets: {pool: prompt, root: prompt}\n", spec.Schema, dir, hex.EncodeToString(make([]byte, 32)), downloads)
	s, err := spec.Parse("install.yaml", []byte(text+more))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(s, plan.Target{RAM: 2 << 30, EFI: true, EFIVars: true, Disks: []plan.Disk{{Path: "/dev/x",
		ByID: "/dev/disk/by-id/x", Serial: "1", Size: 64 << 30, Logical: 512, Known: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
