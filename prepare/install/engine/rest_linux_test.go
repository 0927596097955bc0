package engine

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAptRest kills the real apt and dpkg while they install a package, before they install another that the
// first one recommends. If the step only ran again, the other would be missing. What the plan executes before it
// installs the other, and marks it as installed automatically.
func TestAptRest(t *testing.T) {
	for _, name := range []string{"apt-get", "apt-mark", "dpkg-deb"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: apt-get install apt dpkg", name)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: dpkg changes the owners of files")
	}
	dir := t.TempDir()
	root, repo := dir+"/new", dir+"/repo"
	// chroot does not change the root, which has no programs, but tells apt and dpkg where it is.
	writeFile(t, dir+"/bin/chroot", "#!/bin/sh\nshift\nexport APT_CONFIG="+dir+"/apt.conf DPKG_ADMINDIR="+root+
		"/var/lib/dpkg\nexec \"$@\"\n")
	writeFile(t, dir+"/apt.conf", strings.ReplaceAll(`Dir "ROOT";
Dir::State::status "ROOT/var/lib/dpkg/status";
Dir::Bin::methods "/usr/lib/apt/methods";
Dpkg::Options {"--root=ROOT"; "--force-script-chrootless";};
Acquire::Languages "none";
APT::Sandbox::User "root";
`, "ROOT", root))
	writeFile(t, root+"/etc/apt/sources.list", "deb [trusted=yes] file:"+repo+" ./\n")
	for _, name := range []string{"var/lib/dpkg/status", "var/lib/dpkg/info/format", "var/lib/dpkg/updates/.keep",
		"var/lib/apt/lists/partial/.keep", "var/cache/apt/archives/partial/.keep", "var/log/apt/.keep",
		"etc/apt/preferences.d/.keep", "etc/apt/apt.conf.d/.keep"} {
		writeFile(t, filepath.Join(root, name), "")
	}
	writeFile(t, root+"/var/lib/dpkg/info/format", "1\n")
	packages := ""
	for name, control := range map[string]string{"kernel": "Recommends: guard\n", "guard": "Depends: kernel\n"} {
		from := dir + "/" + name
		control = fmt.Sprintf("Package: %[1]s\nVersion: 1\nArchitecture: all\nMaintainer: tests\nDescription: %[1]s\n%[2]s",
			name, control)
		writeFile(t, from+"/DEBIAN/control", control)
		if name == "kernel" { // the first time, it kills dpkg and apt-get
			writeFile(t, from+"/DEBIAN/preinst", `#!/bin/sh
[ ! -e `+dir+`/killed ] || exit 0
: > `+dir+`/killed
read -r _ _ _ apt _ < /proc/$PPID/stat
kill -9 "$apt" $PPID
`)
			if err := os.Chmod(from+"/DEBIAN/preinst", 0o755); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, repo+"/.keep", "")
		if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", from, repo).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		file := name + "_1_all.deb"
		deb, err := os.ReadFile(repo + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		packages += fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, file, len(deb), sha256.Sum256(deb))
	}
	run := func(argv ...string) (string, error) {
		cmd := exec.Command("env", argv...) // searches the PATH below
		cmd.Env = []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH"), "LC_ALL=C"}
		cmd.Dir = repo
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(argv ...string) string {
		t.Helper()
		out, err := run(argv...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
		return out
	}
	if err := os.Chmod(dir+"/bin/chroot", 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, repo+"/Packages", packages)
	must("chroot", root, "apt-get", "update")

	p := aptPlan(t, dir, "packages: [kernel]\n", dir+"/d")
	step, script := p.Step("packages"), dir+"/apt-rest"
	writeFile(t, script, p.Step("rest-script").Stdin.Text)
	if len(step.Again) != 3 || step.Again[0] != "sh" || !step.Redo {
		t.Fatalf("%q, redo %v", step.Again, step.Redo)
	}
	must("sh", script, root) // before apt-get ever ran
	settle := p.Step("dpkg-settle").Argv[2:]
	if out, err := run(append([]string{"chroot", root}, step.Argv[2:]...)...); err == nil {
		t.Fatalf("not killed\n%s", out)
	}
	must(append([]string{"chroot", root}, settle...)...)
	if copied := must("cp", "-a", root, dir+"/copy"); copied != "" {
		t.Fatal(copied)
	}
	installed := func() string {
		return must("chroot", root, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev};")
	}
	must(append([]string{"chroot", root}, step.Argv[2:]...)...)
	if got := installed(); strings.Contains(got, "guard ii") {
		t.Errorf("apt-get alone installs %s: the plan needs no script any more", got)
	}
	must("rm", "-r", root)
	must("mv", dir+"/copy", root)
	must("sh", script, root)
	must(append([]string{"chroot", root}, step.Argv[2:]...)...)
	if got := installed(); got != "guard ii ;kernel ii ;" {
		t.Errorf("afterwards, there is %s", got)
	}
	if got := must("chroot", root, "apt-mark", "showauto"); got != "guard\n" {
		t.Errorf("installed automatically: %q", got)
	}
	if out := must("sh", script, root); out != "" {
		t.Errorf("with nothing left, it prints %s", out)
	}
}
