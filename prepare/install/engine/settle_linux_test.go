package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/prepare/install/plan"
)

// dkmsLike is what two packages do as dkms does: it stops at what it has half installed. The argument is where it is
// killed the first time, with dpkg and apt-get.
const dkmsLike = `#!/bin/sh
set -e
kill_at() {
	[ "$1" = %[2]s ] && [ ! -e %[1]s/killed-$1 ] || return 0
	: > %[1]s/killed-$1
	read -r _ _ _ apt _ < /proc/$PPID/stat
	kill -9 "$apt" $PPID
	exit 1
}
tree=$DPKG_ROOT/var/lib/dkms/guard
file=$DPKG_ROOT/lib/modules/6-cloud/updates/dkms/guard-core.ko
if [ %[2]s = package ]; then
	[ ! -e $tree/1 ] || [ -e $tree/1/source ] || { echo "guard/1 is broken" >&2; exit 4; }
	mkdir -p $tree/1/6-cloud
	kill_at package
	: > $tree/1/source
fi
[ -e $tree/1/source ] && [ ! -e $tree/kernel-6-cloud-amd64 ] || exit 0
[ ! -e $file ] || { echo "guard-core.ko is already installed" >&2; exit 6; }
[ ! -e $tree/1/6-cloud/half ] || { echo "guard-core.ko is missing" >&2; exit 6; }
mkdir -p ${file%%/*} $tree/1/6-cloud
: > $tree/1/6-cloud/half > $file
kill_at kernel
rm $tree/1/6-cloud/half
: > $tree/kernel-6-cloud-amd64
`

// TestAptSettle kills the real apt and dpkg three times: before they install a package that another one recommends,
// in a package of dkms, and in a kernel for which a package of dkms has a module. If the steps only ran again, the
// first package would be missing, and dpkg would fail at the other two. What the plan executes before the first
// apt-get completes all of them, in steps that were done too.
func TestAptSettle(t *testing.T) {
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
	const kernel = "linux-image-6-cloud"
	for name, control := range map[string]string{"tool": "Recommends: helper\n", "helper": "Depends: tool\n",
		"guard-dkms": "", kernel: ""} {
		from := dir + "/" + name
		control = fmt.Sprintf("Package: %[1]s\nVersion: 1\nArchitecture: all\nMaintainer: tests\nDescription: %[1]s\n%[2]s",
			name, control)
		writeFile(t, from+"/DEBIAN/control", control)
		switch name {
		case "tool":
			writeFile(t, from+"/DEBIAN/preinst", `#!/bin/sh
[ ! -e `+dir+`/killed ] || exit 0
: > `+dir+`/killed
read -r _ _ _ apt _ < /proc/$PPID/stat
kill -9 "$apt" $PPID
`)
		case "guard-dkms":
			writeFile(t, from+"/usr/src/guard-1/dkms.conf", "PACKAGE_NAME=\"guard\"\nBUILT_MODULE_NAME[0]='guard-core'\n")
			writeFile(t, from+"/DEBIAN/postinst", fmt.Sprintf(dkmsLike, dir, "package"))
		case kernel:
			writeFile(t, from+"/DEBIAN/postinst", fmt.Sprintf(dkmsLike, dir, "kernel"))
		}
		for _, script := range []string{"preinst", "postinst"} {
			if err := os.Chmod(from+"/DEBIAN/"+script, 0o755); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

	p := aptPlan(t, dir, "packages: [tool]\n", dir+"/d")
	script := dir + "/apt-settle"
	writeFile(t, script, p.Step("settle-script").Stdin.Text)
	step := p.Step("apt-settle")
	if len(step.Argv) != 3 || len(step.Checks) != 1 || len(step.Checks[0].Argv) != 4 {
		t.Fatalf("%+v", step)
	}
	settle := append([]string{"sh", script, root}, step.Argv[3:]...)
	list := append([]string{"sh", script, root}, step.Checks[0].Argv[3:]...)
	for i, s := range p.Steps {
		if slices.Contains(s.Argv, "apt-get") && slices.Contains(s.Argv, "chroot") && slices.Contains(s.Argv, "-y") {
			if !slices.ContainsFunc(p.Steps[:i], func(s plan.Step) bool { return s.ID == step.ID }) {
				t.Errorf("%s is before %s", s.ID, step.ID)
			}
		}
	}
	must(settle...) // before apt-get ever ran
	installed := func() string {
		return must("chroot", root, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev};")
	}
	install := p.Step("packages").Argv
	for _, c := range []struct{ name, left, alone, with string }{
		{"tool", "helper\ntool\n", "tool iHR", "helper ii ;tool ii ;"},
		{"guard-dkms", "guard-dkms\n", "guard/1 is broken", "guard-dkms ii ;helper ii ;tool ii ;"},
		{kernel, kernel + "\n", "guard-core.ko is already installed",
			"guard-dkms ii ;helper ii ;" + kernel + " ii ;tool ii ;"},
	} {
		apt := append(append([]string{"chroot", root}, install[2:len(install)-1]...), c.name)
		if c.name == kernel { // the module is there, but not of this kernel
			must("rm", root+"/var/lib/dkms/guard/kernel-6-cloud-amd64")
			must("rm", "-r", root+"/lib/modules/6-cloud")
		}
		if out, err := run(apt...); err == nil {
			t.Fatalf("%s: not killed\n%s", c.name, out)
		}
		end := time.Now().Add(time.Minute)
		for { // until dpkg, which outlives apt-get for a moment, has ended
			out, err := run(append([]string{"chroot", root}, p.Step("dpkg-settle").Argv[2:]...)...)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v\n%s", c.name, err, out)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := must(list...); got != c.left {
			t.Errorf("%s: left are %q, want %q", c.name, got, c.left)
		}
		must("cp", "-a", root, dir+"/copy")
		out, _ := run(apt...)
		if got := out + installed(); !strings.Contains(got, c.alone) || strings.Contains(got, c.with) {
			t.Errorf("apt-get alone does not need the script for %s any more:\n%s", c.name, got)
		}
		must("rm", "-r", root)
		must("mv", dir+"/copy", root)
		must(settle...)
		if got := installed(); got != c.with {
			t.Errorf("%s: afterwards, there is %s", c.name, got)
		}
		if got := must(list...); got != "" {
			t.Errorf("%s: afterwards, the script lists %s", c.name, got)
		}
		if out := must(settle...); out != "" {
			t.Errorf("%s: with nothing left, the script prints %s", c.name, out)
		}
	}
	if got := must("chroot", root, "apt-mark", "showauto"); got != "helper\n" {
		t.Errorf("installed automatically: %q", got)
	}
}
