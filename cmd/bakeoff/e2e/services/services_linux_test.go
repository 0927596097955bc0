package services

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/measure/webroot"
	"bakeoff/provision/guest"
	"bakeoff/provision/image"
	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/provision/service/build"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/conn/sshtest"
)

// limit bounds a build, which may have to make its base on a slow machine first.
const limit = 20 * time.Minute

// start returns a home and the folder of the shipped services.
func start(t *testing.T, programs ...string) (e2e.Home, string) {
	t.Helper()
	e2e.NeedsRoot(t)
	for program, pkg := range map[string]string{"mmdebstrap": "mmdebstrap", "bwrap": "bubblewrap", "mke2fs": "e2fsprogs",
		"qemu-system-x86_64": "qemu-system-x86", "crun": "crun", "skopeo": "skopeo"} {
		needed := program == "mmdebstrap" || program == "bwrap" || program == "mke2fs"
		for _, p := range programs {
			needed = needed || p == program
		}
		if _, err := exec.LookPath(program); needed && err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	services, err := filepath.Abs("../../../../services")
	if err != nil {
		t.Fatal(err)
	}
	return e2e.New(t), services
}

// built builds services and returns what was built by name.
func built(t *testing.T, h e2e.Home, args ...string) map[string]build.Result {
	t.Helper()
	out, errs, code := h.Bakeoff(t, limit, append([]string{"image", "build", "--json"}, args...)...)
	var doc struct{ Services []build.Result }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	all := map[string]build.Result{}
	for _, r := range doc.Services {
		all[r.Name] = r
	}
	return all
}

// digests are those of all that was built.
func digests(r build.Result) string {
	return strings.Join([]string{r.Digest, r.RAM.Digest, r.Boot.Digest, r.Disk.Digest}, "\n")
}

// An image or a disk alone is built without a kernel: here bakeoff could not even get one,
// because mmdebstrap is not there.
func TestOnlyOneProduct(t *testing.T) {
	h, _ := start(t)
	dir, out := filepath.Join(h.Dir, "tiny"), filepath.Join(h.Dir, "out")
	write(t, dir, map[string]string{"hello": "hello\n", "service.yaml": "schema: bakeoff/service/v1\nname: tiny\n" +
		"base: scratch\nfiles: [{from: hello, to: /hello}]\nrun: [/hello]\n"})
	mke2fs, err := exec.LookPath("mke2fs")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(h.Dir, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Symlink(mke2fs, filepath.Join(bin, "mke2fs"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	for only, file := range map[string]string{build.Image: "tiny.oci.tar", build.Disk: "tiny.disk"} {
		r := built(t, h, "--only", only, "--output", out, dir)["tiny"]
		none := build.File{}
		if r.Digest == "" || r.RAM != none || r.Boot != none || r.Kernel != none || (r.Disk == none) != (only != build.Disk) {
			t.Errorf("%s: %+v", only, r)
		}
		entries, err := os.ReadDir(out)
		if err != nil || len(entries) != 1 || entries[0].Name() != file {
			t.Errorf("%s: %v, %v", only, entries, err)
		}
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, code := h.Bakeoff(t, limit, "image", "build", "--only", "kernel", dir); code != 2 {
		t.Errorf("--only kernel: exit code %d: %s", code, errs)
	}
}

// Two builds of one definition give the same bytes, also if the second one has a busy
// machine; the agent's RAM disk is small; and what was built goes to a registry and comes
// back with its digest.
func TestEqualDefinitionsGiveEqualBytes(t *testing.T) {
	h, services := start(t, "skopeo")
	agent, rescue := filepath.Join(services, "agent"), filepath.Join(services, "rescue")
	first := built(t, h, "--fresh", agent, rescue, "--output", "out")
	if n := first["agent"].RAM.Size; n > 8<<20 {
		t.Errorf("the RAM disk of the agent has %d bytes, more than 8 MiB", n)
	}
	if again := built(t, h, rescue)["rescue"]; again.Built || digests(again) != digests(first["rescue"]) {
		t.Errorf("the store does not return what it has: %+v", again)
	}
	busy, stop := context.WithCancel(t.Context())
	for range runtime.NumCPU() {
		c := exec.CommandContext(busy, "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Wait() }() // it is killed
	}
	defer stop()
	second := built(t, h, "--fresh", agent, rescue)
	for name, r := range second {
		if !r.Built || digests(r) != digests(first[name]) {
			t.Errorf("%s: the digests were\n%s\nand are\n%s", name, digests(first[name]), digests(r))
		}
	}
	stop()
	h.LeavesNothing(t)

	s := registrytest.Start(t, false)
	c := exec.Command("skopeo", "copy", "-q", "--preserve-digests", "--dest-tls-verify=false",
		"oci-archive:"+filepath.Join(h.Dir, "out/rescue.oci.tar"), "docker://"+s.Host+"/rescue:1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("skopeo: %v\n%s", err, out)
	}
	store := &image.Store{Dir: t.TempDir(), Host: local.Conn{}}
	img, err := store.Get(t.Context(), image.Request{Ref: s.Host + "/rescue:1"})
	if err != nil || img.Digest != first["rescue"].Digest {
		t.Errorf("the registry returned %s, %v; pushed was %s", img.Digest, err, first["rescue"].Digest)
	}
	if _, err := os.Stat(filepath.Join(img.Dir, "bin/busybox")); err != nil {
		t.Error(err)
	}
}

// A step that fails is named with its line and its output, and leaves nothing.
func TestAFailedStepIsNamed(t *testing.T) {
	h, _ := start(t)
	dir := filepath.Join(h.Dir, "broken")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := `schema: bakeoff/service/v1
base: unpacked:debian:bookworm
packages: [busybox-static]
users: [{name: app, id: 1000, home: /home/app}]
build:
  - [busybox, --install, -s, /bin]
  - test ! -e /sys/class/net/eth0 && test "$(hostname)" = broken
  - |
    echo the reason is here >&2
    id
    exit 3
`
	if err := os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs, code := h.Bakeoff(t, limit, "image", "build", dir)
	for _, want := range []string{"service broken: service.yaml:8: ", "exit code 3", "the reason is here", "uid=0 gid=0",
		"correct the step"} {
		if !strings.Contains(errs, want) {
			t.Errorf("the message lacks %q:\n%s", want, errs)
		}
	}
	if strings.Contains(errs, "s wall") {
		t.Errorf("the output has a line of the agent:\n%s", errs)
	}
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	h.LeavesNothing(t)
}

// The image of one definition serves its page from a microVM with a disk, from a microVM
// with a RAM disk, and from a container.
func TestWebIsServed(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("boots a PC")
	}
	h, services := start(t, "qemu-system-x86_64", "crun")
	web := built(t, h, filepath.Join(services, "web"), "--output", "out")["web"]
	at := func(file build.File) string { return filepath.Join(h.Dir, file.Path) }
	disk := []string{"-drive", "if=none,id=d,format=raw,snapshot=on,file=" + at(web.Disk),
		"-device", "virtio-blk-device,drive=d"}
	clock := clockWords(t, h)
	t.Run("disk", func(t *testing.T) { machine(t, clock, at(web.Kernel), at(web.Boot), disk...) })
	t.Run("RAM disk", func(t *testing.T) { machine(t, clock, at(web.Kernel), at(web.RAM)) })
	t.Run("container", func(t *testing.T) { container(t, filepath.Join(h.Dir, "out/web.oci.tar")) })
}

// page is what must be served.
func page() []byte { return webroot.Example().Home().Body }

// clockWords tell the kernel of an emulated microVM the frequency of its time stamp counter,
// which is the host's. Without them most boots hang in its calibration.
func clockWords(t *testing.T, h e2e.Home) string {
	t.Helper()
	r, err := guest.ProbeKVM(t.Context(), local.Conn{}, filepath.Join(filepath.Dir(h.Command().Path), "bakeoff-agent"))
	if err != nil || r.TSCKHz == 0 {
		t.Fatalf("the frequency of the time stamp counter is %d kHz, %v", r.TSCKHz, err)
	}
	return fmt.Sprintf(" tsc_early_khz=%d tsc=reliable lpj=4000000", r.TSCKHz)
}

// In Firecracker, the host presses Ctrl, Alt and Del to stop a guest. The init process then ends
// the program with SIGTERM, and the machine with it. Here QEMU presses the keys, in a machine that
// has a keyboard; nothing is connected to its vsock port.
func TestKeyboardEndsService(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("boots a PC")
	}
	h, _ := start(t, "qemu-system-x86_64")
	dir := h.WaitingService(t, "waiting")
	r := built(t, h, dir)["waiting"]
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "512",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", r.Kernel.Path,
		"-initrd", r.RAM.Path, "-append", "console=ttyS0 panic=-1 quiet cryptomgr.notests bakeoff.port=vsock:1024",
		"-monitor", "unix:"+filepath.Join(h.Dir, "m")+",server,nowait")
	console, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(console); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if lines.Text() != "waits" {
			continue
		}
		m, err := net.Dial("unix", filepath.Join(h.Dir, "m"))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if _, err := io.WriteString(m, "sendkey ctrl-alt-delete\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(); err != nil || !strings.Contains(said.String(), "\nends: terminated\n") {
		t.Errorf("the machine ended: %v\n%s", err, said.String())
	}
}

// machine boots a microVM under emulation until it serves the page.
func machine(t *testing.T, words, kernel, initrd string, more ...string) {
	t.Helper()
	addr := fmt.Sprint("127.0.0.1:", sshtest.FreePort(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var console bytes.Buffer
	c := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{"-M", "microvm", "-accel", "tcg", "-cpu", "max",
		"-m", "768", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", kernel, "-initrd", initrd,
		"-append", "console=ttyS0 panic=-1 reboot=t quiet cryptomgr.notests" + words,
		"-netdev", "user,id=n,restrict=on,hostfwd=tcp:" + addr + "-:80",
		"-device", "virtio-net-device,netdev=n"}, more...)...)
	c.Stdout, c.Stderr = &console, &console
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // it is killed
		close(ended)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		body, err := get(&client, "http://"+addr+"/")
		if err == nil {
			if !bytes.Equal(body, page()) {
				t.Errorf("it serves %q", body)
			}
			return
		}
		select {
		case <-ended:
			t.Fatalf("the machine ended: %v\n%s", err, console.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func get(client *http.Client, url string) ([]byte, error) {
	r, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", r.Status)
	}
	return io.ReadAll(io.LimitReader(r.Body, 1<<20))
}

// container unpacks the image and starts its program in a container with a network of its
// own, from which bash of the image asks for the page.
func container(t *testing.T, archive string) {
	t.Helper()
	img := unpacked(t, archive)
	program := strings.Join(append(img.Config.Entrypoint, img.Config.Cmd...), "' '")
	script := "'" + program + `' & until (: 3<>/dev/tcp/127.0.0.1/80) 2>/dev/null; do sleep 0.05; done
exec 3<>/dev/tcp/127.0.0.1/80
printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3 && kill $!`
	out, err := crun(t, img.Dir, map[string]any{"cwd": "/", "env": img.Config.Env, "args": []string{"bash", "-c", script},
		"user": map[string]any{"uid": 0, "gid": 0}})
	head, body, _ := bytes.Cut(out, []byte("\r\n\r\n"))
	if err != nil || !bytes.Contains(head, []byte(" 200 OK")) || !bytes.HasPrefix(body, page()) {
		t.Errorf("%v\n%s", err, out)
	}
}

// unpacked is the image in an archive, with its root.
func unpacked(t *testing.T, archive string) image.Root {
	t.Helper()
	store := &image.Store{Dir: t.TempDir(), Host: local.Conn{}}
	img, err := store.Get(t.Context(), image.Request{Ref: "oci-archive:" + archive})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// crun runs a process in a container, and returns its output.
func crun(t *testing.T, root string, process map[string]any) ([]byte, error) {
	t.Helper()
	id := fmt.Sprintf("bakeoff-services-%d", os.Getpid())
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID"}
	process["capabilities"] = map[string]any{"bounding": caps, "effective": caps, "permitted": caps}
	mount := func(kind, to string, options ...string) map[string]any {
		return map[string]any{"type": kind, "source": kind, "destination": to, "options": append(options, "nosuid")}
	}
	config, err := json.Marshal(map[string]any{"ociVersion": "1.0.0", "hostname": "web",
		"root": map[string]any{"path": root}, "process": process,
		"mounts": []any{mount("proc", "/proc"), mount("tmpfs", "/dev", "mode=755"), mount("tmpfs", "/run", "mode=755")},
		"linux": map[string]any{"cgroupsPath": "/" + id, "namespaces": []any{map[string]any{"type": "pid"},
			map[string]any{"type": "network"},
			map[string]any{"type": "mount"}, map[string]any{"type": "uts"}, map[string]any{"type": "ipc"}}}})
	if err != nil {
		t.Fatal(err)
	}
	bundle := t.TempDir()
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	state := []string{"--root", t.TempDir(), "--cgroup-manager=cgroupfs"}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	defer func() {
		_ = exec.Command("crun", append(state, "delete", "-f", id)...).Run() // it may have ended
	}()
	// crun 1.8 fails without a word where both versions of control groups are mounted.
	argv := append([]string{"--mount", "--propagation", "private", "sh", "-c",
		`umount /sys/fs/cgroup/unified 2>/dev/null; exec crun "$@"`, "crun"}, append(state, "run", "-b", bundle, id)...)
	return exec.CommandContext(ctx, "unshare", argv...).CombinedOutput()
}
