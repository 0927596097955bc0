package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/plan"
	"bakeoff/reach/conn/local"
)

// TestModuleOfEachKernel runs the check that names each kernel without a module of ZFS.
func TestModuleOfEachKernel(t *testing.T) {
	step := newMachine(t, 2).plan(mirrorSpec).Step("module-each")
	root := t.TempDir()
	const with = "kernel/fs/zonefs/zonefs.ko.xz:\nupdates/dkms/zfs.ko.xz: updates/dkms/spl.ko.xz\n"
	for name, text := range map[string]string{
		"6.1/modules.builtin": "", "6.1/modules.dep": with,
		"6.2/modules.builtin": "", "6.2/modules.dep": "kernel/fs/zonefs/zonefs.ko.xz:\n",
		"6.3/modules.builtin": "", // depmod did not run
		"6.4/modules.dep":     "", // left by a kernel that was removed
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := step.Checks[0]
	for i, a := range c.Argv {
		c.Argv[i] = strings.Replace(a, "/mnt/usr/lib/modules", root, 1)
	}
	e := &Engine{Conn: local.Conn{}, Secrets: &Secrets{}}
	got, err := e.check(context.Background(), c)
	if err != nil || got.state != conflicting || strings.Contains(got.says, "6.1") || strings.Contains(got.says, "6.4") ||
		!strings.Contains(got.says, "/6.2 has no module of ZFS") || !strings.Contains(got.says, "/6.3 has no module of ZFS") {
		t.Errorf("got %v %q, %v", got.state, got.says, err)
	}
	for _, v := range []string{"6.2", "6.3"} {
		if err := os.Remove(filepath.Join(root, v, "modules.builtin")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := e.check(context.Background(), c); err != nil || got.state != satisfied {
		t.Errorf("got %v %q, %v", got.state, got.says, err)
	}
}

// check looks once.
func (e *Engine) check(ctx context.Context, c plan.Check) (sight, error) {
	got, err := e.run(ctx, c)
	if err != nil {
		return sight{}, err
	}
	return got.judge(c), nil
}

// debOfZFS is a package of ZFS that dkms builds, with what its source says of kernels.
func debOfZFS(t *testing.T, version, linux string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"DEBIAN/control": "Package: zfs-dkms\nVersion: 2\nArchitecture: amd64\nMaintainer: tests\nDescription: zfs-dkms\n",
		"usr/src/zfs-" + version + "/META": "Meta:          1\nName:          zfs\nVersion:       " + version +
			"\nRelease:       1\nLinux-Maximum: " + linux + "\nLinux-Minimum: 3.10\n",
		"usr/src/zfs-" + version + "/configure": strings.Repeat("true\n", 1<<12),
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	file := dir + ".deb"
	cmd := exec.Command("dpkg-deb", "-Znone", "--root-owner-group", "--build", dir, file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestModuleFits runs the check that compares the downloaded kernels of Debian with ZFS, on packages
// that dpkg-deb made and on an archive in the form of dkms.
func TestModuleFits(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb: apt-get install dpkg")
	}
	const image, headers, kernel = "linux-image-", "linux-headers-", "6.1.0-50-cloud-amd64"
	const installed = "Package: %s\nStatus: install ok installed\nVersion: 1\n\n"
	for _, c := range []struct {
		name     string
		packages []string // downloaded ones besides that of ZFS
		base     []string // of the base system
		module   string   // the kernel of which an archive has a module
		version  string   // of ZFS in the archive, "" is that of the package
		want     []string // of lines
	}{
		{name: "fits", packages: []string{image + kernel, headers + kernel, image + "amd64", image + "6.9-amd64-dbg"}},
		{name: "too new", packages: []string{image + kernel, headers + kernel, image + aptKernel, headers + aptKernel},
			want: []string{"OpenZFS 2.1.11 supports Linux up to 6.2: dkms builds no module for the kernel " + aptKernel +
				"; set kernel to an older kernel"}},
		{name: "next major version", packages: []string{image + "7.0-amd64", headers + "7.0-amd64"},
			want: []string{"for the kernel 7.0-amd64"}},
		{name: "older major version", packages: []string{image + "5.19-amd64-unsigned", headers + "5.19-amd64"}},
		{name: "no headers", packages: []string{image + kernel, headers + "6.1.0-49-cloud-amd64", image + "6.1.0-50-rt-amd64",
			headers + "6.1.0-50-rt-amd64"}, want: []string{"the headers of the kernel " + kernel + " are missing"}},
		{name: "no kernel", packages: []string{image + "amd64"}, want: []string{"no kernel is among the packages"}},
		{name: "in the base system", base: []string{image + kernel, headers + kernel}},
		{name: "too new in the base system", base: []string{image + aptKernel, headers + aptKernel},
			want: []string{"for the kernel " + aptKernel}},
		{name: "removed from the base system", packages: []string{image + kernel, headers + kernel},
			base: []string{"-" + image + aptKernel}},
		{name: "modules", packages: []string{image + kernel}, module: kernel},
		{name: "modules of a kernel that is too new", packages: []string{image + aptKernel}, module: aptKernel},
		{name: "modules of another kernel", packages: []string{image + kernel, headers + kernel},
			module: "6.1.0-5-cloud-amd64", want: []string{"zfs-2.1.11.dkms.tar.gz has no module for the kernel " + kernel +
				", only for 6.1.0-5-cloud-amd64; set kernel to that kernel, set modules to an archive for this"}},
		{name: "modules of another ZFS", packages: []string{image + kernel, headers + kernel}, module: kernel,
			version: "2.3.2", want: []string{"dkms would not use zfs-2.3.2.dkms.tar.gz: the mirror has OpenZFS 2.1.11"}},
		{name: "ZFS and a module in the base system", base: []string{"zfs-dkms", image + aptKernel}},
		{name: "ZFS without the module in the base system", base: []string{"zfs-dkms", image + "6.12.8+bpo-amd64",
			headers + "6.12.8+bpo-amd64"}, want: []string{"for the kernel 6.12.8+bpo-amd64"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, more := t.TempDir(), ""
			if c.module != "" {
				file := dir + "/zfs-" + cmp.Or(c.version, "2.1.11") + ".dkms.tar.gz"
				more = "modules: {file: " + file + ", sha256: " + strings.Repeat("0", 64) + "}\n"
				writeFile(t, dir+"/tree/dkms_main_tree/"+c.module+"/x86_64/module/zfs.ko.xz", "module")
				writeFile(t, dir+"/tree/dkms_main_tree/"+c.module+"/x86_64/module/spl.ko.xz", "module")
				tarball(t, file, dir+"/tree")
			}
			p := aptPlan(t, dir, more, dir+"/d")
			root := dir + "/d/debian"
			archives := root + "/var/cache/apt/archives/"
			for _, name := range c.packages {
				writeFile(t, archives+name+"_6.1-1~bpo12+1_amd64.deb", "")
			}
			writeFile(t, archives+"lock", "")
			status := ""
			for _, name := range c.base {
				text := fmt.Sprintf(installed, strings.TrimPrefix(name, "-"))
				if name[0] == '-' {
					text = strings.Replace(text, "install ok installed", "deinstall ok config-files", 1)
				}
				status += text
			}
			writeFile(t, root+"/var/lib/dpkg/status", status)
			if slices.Contains(c.base, "zfs-dkms") {
				writeFile(t, dir+"/root/usr/src/zfs-2.1.11/META", "Version: 2.1.11\nLinux-Maximum: 6.2\n")
				writeFile(t, dir+"/root/usr/lib/modules/"+aptKernel+"/updates/dkms/zfs.ko", "module")
				tarball(t, dir+"/base.tar", dir+"/root")
			} else {
				writeFile(t, archives+"zfs-dkms_2.1.11-1+deb12u1_all.deb", string(debOfZFS(t, "2.1.11", "6.2")))
			}
			writeFile(t, root+"/module-fits", p.Step("module-script").Stdin.Text)
			e := &Engine{Conn: local.Conn{}, Secrets: &Secrets{}}
			check := p.Step("module-fits").Checks[0]
			got, err := e.run(context.Background(), check)
			state := map[bool]outcome{true: satisfied, false: conflicting}[c.want == nil]
			if err != nil || !got.ok || got.errs != "" || got.judge(check).state != state {
				t.Fatalf("%+v, %v", got, err)
			}
			lines := slices.Collect(strings.Lines(got.out))
			if len(lines) != len(c.want) {
				t.Fatalf("it printed\n%s", got.out)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("%q is not in %s", want, lines[i])
				}
			}
		})
	}
}

// TestModuleFitsPinned: without downloads, the check still finds that an archive of modules is for another
// kernel than the one of the specification.
func TestModuleFitsPinned(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/zfs-2.3.9.dkms.tar.gz"
	writeFile(t, dir+"/tree/dkms_main_tree/6.12.117+deb13-amd64/x86_64/module/zfs.ko.xz", "module")
	tarball(t, file, dir+"/tree")
	more := "modules: {file: " + file + ", sha256: " + strings.Repeat("0", 64) + "}\nkernel: linux-image-"
	for kernel, want := range map[string]outcome{"6.12.117+deb13-amd64": satisfied, "6.12.11-amd64": conflicting} {
		p := aptPlan(t, t.TempDir(), more+kernel+"\n", "none")
		e := &Engine{Conn: local.Conn{}, Secrets: &Secrets{}}
		got, err := e.check(context.Background(), p.Step("module-fits").Checks[0])
		if err != nil || got.state != want {
			t.Errorf("%s: %v, %v", kernel, got, err)
		}
	}
	if aptPlan(t, t.TempDir(), more+"amd64\n", "none").Step("module-fits") != nil {
		t.Error("the specification names no version of the kernel")
	}
}

func tarball(t *testing.T, file, dir string) {
	t.Helper()
	if out, err := exec.Command("tar", "-C", dir, "-caf", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
}

// TestKernelTooNew stops installations of Debian and Void before the disk is touched if ZFS does not
// support the kernel, or if its headers are missing. Older packages that an interrupted download left
// in the cache of Void change nothing.
func TestKernelTooNew(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	for _, c := range []struct{ name, spec, kernel string }{
		{"debian", debianSpec, "6.12.30-amd64"}, {"void", plainSpec, "6.12.30_1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, 1)
			m.powerOn()
			record := m.begin(m.plan(c.spec), "new")
			const folder = "/var/tmp/bakeoff-install/"
			refused := func(want, env string) {
				t.Helper()
				out, err := m.run(record, env)
				if err == nil || !strings.Contains(out, want) {
					t.Errorf("%v, want %s\n%s", err, want, out)
				}
				m.untouched()
				if destroyed(record) {
					t.Error("a step that destroys began")
				}
			}
			refused("supports Linux up to 6.11: dkms builds no module for the kernel "+c.kernel, "FAKE_LINUX=6.11")
			refused("does not say which kernels it supports", "FAKE_LINUX=none")
			if c.name == "void" { // apt would download them
				const cache, headers = folder + "void/cache/", "linux6.12-headers-6.12.30_1.x86_64.xbps"
				m.inside("mv", cache+headers, folder)
				refused("the headers of the kernel "+c.kernel+" are missing", "FAKE_LINUX=6.12")
				m.inside("cp", folder+headers, cache+"linux6.12-6.12.29_1.x86_64.xbps")
				m.inside("mv", folder+headers, cache)
			}
			if out, err := m.run(record, "FAKE_LINUX=6.12"); err != nil || !destroyed(record) {
				t.Fatalf("%v\n%s", err, out)
			}
			if out, err := m.run(record, "ENGINE_VERIFY=1"); err != nil {
				t.Errorf("verify: %v\n%s", err, out)
			}
		})
	}
}
