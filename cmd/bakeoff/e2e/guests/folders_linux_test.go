package guests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/image"
	"bakeoff/provision/vm"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/initramfs"
	"bakeoff/reach/wire"
)

// mounter is the program of a guest that mounts what it is asked for at its further console: lines
// of TYPE SOURCE OPTIONS. It reads a file of the folder and writes another one. It turns off the
// echo of the console: the echo of the next request could stand inside an answer.
const mounter = `package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

func main() {
	line, err := os.OpenFile("/dev/hvc0", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	var mode syscall.Termios
	_, _, no := syscall.Syscall(syscall.SYS_IOCTL, line.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&mode)))
	mode.Lflag &^= syscall.ECHO
	if no == 0 {
		_, _, no = syscall.Syscall(syscall.SYS_IOCTL, line.Fd(), syscall.TCSETS, uintptr(unsafe.Pointer(&mode)))
	}
	if no != 0 {
		fmt.Println(no)
		return
	}
	for in := bufio.NewScanner(line); in.Scan(); {
		f := strings.Fields(in.Text())
		if len(f) < 3 {
			continue
		}
		os.Mkdir("/m", 0o755)
		err := syscall.Mount(f[1], "/m", f[0], 0, f[2])
		text, rerr := os.ReadFile("/m/host")
		werr := os.WriteFile("/m/guest", []byte("from the guest"), 0o644)
		uerr := error(nil)
		if err == nil {
			uerr = syscall.Unmount("/m", 0)
		}
		fmt.Fprintf(line, "did %s: %q %v %v %v %v\n", in.Text(), text, err, rerr, werr, uerr)
	}
}
`

// mountingGuest writes a kernel and a RAM disk with mounter.
func mountingGuest(t *testing.T, h e2e.Home, kernelPackage string, modules ...string) (kernel, ramDisk string) {
	t.Helper()
	store := image.Store{Dir: filepath.Join(h.Variable("BAKEOFF_CACHE"), "images"), Host: local.Conn{}}
	img, err := store.Get(t.Context(), image.Request{Ref: "debian:bookworm", Kernel: true, KernelPackage: kernelPackage})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "mounter")
	e2e.Build(t, mounter, program)
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := initramfs.OpenTree(os.DirFS(filepath.Join(img.Modules, "lib/modules", img.KernelVersion)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := initramfs.New(&out)
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if err := a.Dir(dir); err != nil {
			t.Fatal(err)
		}
	}
	config := wire.InitConfig{Schema: wire.InitSchema, Hostname: "mounts",
		Start: &wire.InitStart{Argv: []string{"/mounter"}}}
	modules = append(modules, "virtio_mmio", "virtio_net", "virtio_console")
	if config.Modules, err = a.AddModules(tree, modules); err != nil {
		t.Fatal(err)
	}
	said, err := json.Marshal(config)
	if err == nil {
		err = a.Init(filepath.Join(filepath.Dir(h.Command().Path), "bakeoff-agent"))
	}
	if err == nil {
		err = a.Text(wire.InitConfigPath, 0o600, said)
	}
	if err == nil {
		err = a.Text("/mounter", 0o755, text)
	}
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return img.Kernel, file(t, "ramdisk", out.String())
}

// mountInside asks a guest to mount a folder, and returns what it says.
func mountInside(t *testing.T, h e2e.Home, name, request string) string {
	t.Helper()
	s, err := net.Dial("unix", consolesOf(t, h, name)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := "did " + request + ": "
	answer := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(s); lines.Scan(); {
			if got, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), begin); ok {
				answer <- got
				return
			}
		}
	}()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		if _, err := fmt.Fprintln(s, request); err != nil { // again, until the guest has booted
			t.Fatal(err)
		}
		select {
		case got := <-answer:
			return got
		case <-time.After(time.Second):
		}
	}
	t.Fatalf("%s does not answer:\n%s", name, do(t, h, "logs", name))
	return ""
}

// hostFolder is a folder of the host with a file.
func hostFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host"), []byte("from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checkFolder(t *testing.T, dir string, written bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "guest"))
	if (string(text) == "from the guest") != written || (err == nil) != written {
		t.Errorf("the host finds %q in %s, %v", text, dir, err)
	}
}

const mountedBoth, mountedReadOnly = `"from the host" <nil> <nil> <nil> <nil>`,
	`"from the host" <nil> <nil> open /m/guest: read-only file system <nil>`

// A machine mounts folders of the host that are shared by NFS, over its network. Only this machine
// can mount them. The server is started again when it was killed, and ends with the guest.
func TestFoldersByNFS(t *testing.T) {
	h := home(t)
	if err := volume.Lacks(t.Context(), local.Conn{}, volume.NFS, true); err != nil {
		if fault.Is(err, fault.Unsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	kernel, ramDisk := mountingGuest(t, h, "", "nfsv4")
	do(t, h, "network", "create", "shared", "--subnet", "198.18.77.0/24")
	data, fixed := hostFolder(t), hostFolder(t)
	create := func(alias, folders string) {
		t.Helper()
		do(t, h, "create", "-f", file(t, alias+".json", fmt.Sprintf(`{"brand": "microvm", "alias": %q, "ram": 256,
			"consoles": 1, "kernel": %q, "initrd": %q, "nics": [{"nic_tag": "shared"}], "filesystems": [%s]}`,
			alias, kernel, ramDisk, folders)))
	}
	create("a", fmt.Sprintf(`{"source": %q, "target": "/data", "type": "nfs"},
		{"source": %q, "target": "/fixed", "type": "nfs", "options": ["ro"]}`, data, fixed))
	create("b", "")
	var info struct{ Filesystems []vm.Mount }
	decode(t, do(t, h, "info", "a", "filesystems"), &info)
	if len(info.Filesystems) != 2 || info.Filesystems[0].Source != data {
		t.Fatalf("info prints %+v", info)
	}
	// request is what mount(8) would ask the kernel for.
	request := func(m vm.Mount, client string) string {
		f := strings.Fields(m.Command)
		server, _, _ := strings.Cut(f[5], ":")
		return fmt.Sprintf("nfs4 %s %s,addr=%s,clientaddr=%s", f[5], f[4], server, client)
	}
	if got := mountInside(t, h, "a", request(info.Filesystems[0], "198.18.77.2")); got != mountedBoth {
		t.Errorf("data: %s", got)
	}
	checkFolder(t, data, true)
	if got := mountInside(t, h, "a", request(info.Filesystems[1], "198.18.77.2")); got != mountedReadOnly {
		t.Errorf("fixed: %s", got)
	}
	checkFolder(t, fixed, false)
	if got := mountInside(t, h, "b", request(info.Filesystems[0], "198.18.77.3")); !strings.HasPrefix(got, `"" `) ||
		strings.HasPrefix(got, `"" <nil>`) {
		t.Errorf("another machine mounts the folder: %s", got)
	}
	config := filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", guest(t, h, "a").UUID, "folders.ganesha.conf")
	server := processes(t, config)
	if len(server) != 1 {
		t.Fatalf("the servers are %q", server)
	}
	var pid int
	if _, err := fmt.Sscan(server[0], &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		got := mountInside(t, h, "a", request(info.Filesystems[1], "198.18.77.2"))
		if got == mountedReadOnly {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after a kill of the server: %s", got)
		}
	}
	do(t, h, "stop", "-F", "a")
	if left := processes(t, config); len(left) > 0 {
		t.Errorf("the server outlives its guest: %q", left)
	}
	refused(t, h, 1, "a guest without a NIC reaches no server", "create", "-f", file(t, "bad.json", fmt.Sprintf(`{"brand":
		"microvm", "kernel": %q, "filesystems": [{"source": %q, "target": "/a", "type": "nfs"}]}`, kernel, data)))
	removeGuests(t, h)
	do(t, h, "network", "delete", "shared")
	leavesNothing(t, h)
}

// A machine mounts folders of the host by 9p. The kernel of services has no 9p, so the guest has
// Debian's ordinary one.
func TestFoldersBy9p(t *testing.T) {
	takesMinutes(t)
	h := home(t)
	kernel, ramDisk := mountingGuest(t, h, "linux-image-amd64", "9p", "9pnet_virtio")
	data, fixed := hostFolder(t), hostFolder(t)
	do(t, h, "create", "-f", file(t, "a.json", fmt.Sprintf(`{"brand": "microvm", "alias": "a", "ram": 256, "consoles": 1,
		"kernel": %q, "initrd": %q, "filesystems": [{"source": %q, "target": "/data", "type": "9p"},
		{"source": %q, "target": "/fixed", "type": "9p", "options": ["ro"]}]}`, kernel, ramDisk, data, fixed)))
	var info struct{ Filesystems []vm.Mount }
	decode(t, do(t, h, "info", "a", "filesystems"), &info)
	for i, want := range []string{mountedBoth, mountedReadOnly} {
		f := strings.Fields(info.Filesystems[i].Command) // mount -t 9p -o OPTIONS TAG TARGET
		if got := mountInside(t, h, "a", fmt.Sprintf("9p %s %s", f[5], f[4])); got != want {
			t.Errorf("folder %d: %s", i, got)
		}
	}
	checkFolder(t, data, true)
	checkFolder(t, fixed, false)
	removeGuests(t, h)
	leavesNothing(t, h)
}

// The microVM of a service mounts folders of the host where -v says, by virtiofs. The host itself
// keeps a folder read-only. The daemons end with the guest, and the guest fails if a daemon fails.
func TestFoldersOfService(t *testing.T) {
	h := home(t)
	data, fixed := hostFolder(t), hostFolder(t)
	run := []string{"vm", "run", service(t, "web"), "--accel", "tcg", "--name", "w", "--memory", "256MiB", "-v",
		data + ":/data", "-v", fixed + ":/srv/fixed:ro"}
	without := exec.Command("unshare", append([]string{"--mount", "sh", "-c", `for f in $(command -v virtiofsd) \
		/usr/libexec/virtiofsd /usr/lib/virtiofsd /usr/lib/qemu/virtiofsd; do [ ! -e $f ] || mount --bind /dev/null $f; done
		exec "$@"`, "sh"}, h.Command(run...).Args...)...)
	without.Env, without.Dir = h.Env, h.Dir
	if out, err := without.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("apt-get install virtiofsd")) {
		t.Errorf("without virtiofsd: %v\n%s", err, out)
	}
	if all := guests(t, h); len(all) != 0 {
		t.Errorf("without virtiofsd, bakeoff makes %+v", all)
	}
	do(t, h, run[1:]...)
	if got := do(t, h, "exec", "w", "--", "cat", "/data/host", "/srv/fixed/host"); got != "from the hostfrom the host" {
		t.Errorf("the guest reads %q", got)
	}
	const write = "printf 'from the guest' >"
	do(t, h, "exec", "w", "--", "sh", "-c", write+"/data/guest")
	checkFolder(t, data, true)
	for _, before := range []string{"", "mount -o remount,rw /srv/fixed; "} {
		got := do(t, h, "exec", "w", "--", "sh", "-c", "("+before+write+"/srv/fixed/guest) 2>&1 || echo refused")
		if !strings.Contains(got, "refused") {
			t.Errorf("%sthe write says %q", before, got)
		}
	}
	checkFolder(t, fixed, false)
	refused(t, h, 1, "cannot save the state of virtiofs", "create-snapshot", "w", "s")
	socket := "--socket-path=" + filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", guest(t, h, "w").UUID)
	if daemons := processes(t, socket); len(daemons) < 2 {
		t.Errorf("the daemons are %q", daemons)
	}
	do(t, h, "stop", "w")
	if daemons := processes(t, socket); len(daemons) > 0 {
		t.Errorf("the daemons %q outlive the guest", daemons)
	}
	do(t, h, "start", "w")
	if got := do(t, h, "exec", "w", "--", "cat", "/data/guest"); got != "from the guest" {
		t.Errorf("after a start, the guest reads %q", got)
	}
	killAll(t, processes(t, socket))
	for end := time.Now().Add(2 * time.Minute); guest(t, h, "w").State != vm.Failed; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a kill of the daemons, the guest is %s", guest(t, h, "w").State)
		}
	}
	if list := do(t, h, "get", "w"); !strings.Contains(list, "virtiofsd of "+data) &&
		!strings.Contains(list, "virtiofsd of "+fixed) {
		t.Errorf("the reason is missing: %s", list)
	}
	do(t, h, "start", "w")
	supervisor := guest(t, h, "w").Supervisor
	killAll(t, []string{strconv.Itoa(supervisor)})
	for end := time.Now().Add(2 * time.Minute); len(processes(t, socket)) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the daemons %q outlive the supervisor", processes(t, socket))
		}
	}
	removeGuests(t, h)
	if left, err := filepath.Glob("/var/run/virtiofsd/" + strings.ReplaceAll(h.Dir, "/", ".") + "*"); err != nil ||
		len(left) > 0 {
		t.Errorf("locks of virtiofsd are left: %q, %v", left, err)
	}
	leavesNothing(t, h)
}

// killAll kills the processes that begin the lines.
func killAll(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err != nil || pid <= 1 {
			t.Fatal(pid, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}
