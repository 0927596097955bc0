package guestinit

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/network"
	"bakeoff/reach/wire"
)

// startAddr is the word of the kernel's command line that names the address of the
// guest's network interface: bakeoff.addr=192.0.2.7/24.
const startAddr = "bakeoff.addr="

// startGateway and startResolvers are the words with the router and the name servers of that
// interface: bakeoff.gateway=192.0.2.1 and bakeoff.resolvers=192.0.2.1,192.0.2.2.
const (
	startGateway   = "bakeoff.gateway="
	startResolvers = "bakeoff.resolvers="
)

// startPort is the word of the kernel's command line that names the port of the agent, if that
// is a socket to the hypervisor: bakeoff.port=vsock:1024.
const startPort = "bakeoff.port="

// startShare is the word of the kernel's command line with a folder of the host that the guest
// mounts: bakeoff.share=TAG:PATH or TAG:PATH:ro. PATH is escaped as in the query of a URL.
const startShare = "bakeoff.share="

// readShare reads what follows startShare.
func readShare(text string) (s share, err error) {
	f := strings.Split(text, ":")
	if len(f) == 3 && f[2] == "ro" {
		s.readOnly, f = true, f[:2]
	}
	if len(f) == 2 {
		s.tag = f[0]
		s.path, err = url.QueryUnescape(f[1])
	}
	if err != nil || s.tag == "" || !filepath.IsAbs(s.path) || filepath.Clean(s.path) == "/" {
		return s, fault.WithFix(fault.New(fault.Invalid, "%s%s on the kernel's command line is not a shared folder",
			startShare, text), "write "+startShare+"TAG:PATH")
	}
	return s, nil
}

// mount mounts the folder.
func (s share) mount() error {
	if err := os.MkdirAll(s.path, 0o755); err != nil {
		return err
	}
	flags := uintptr(unix.MS_NODEV)
	if s.readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount(s.tag, s.path, "virtiofs", flags, ""); err != nil {
		return fmt.Errorf("mount the folder %s at %s: %w", s.tag, s.path, err)
	}
	return nil
}

// readLine takes the port of the agent, and shared folders, from the kernel's command line in a
// file.
func (in *initProcess) readLine(file string) error {
	line, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(string(line)) {
		if port, ok := strings.CutPrefix(word, startPort); ok && strings.HasPrefix(port, vsockPort) {
			in.config.Port = port
			in.config.Modules = append(in.config.Modules, in.config.VsockModules...)
		}
		if text, ok := strings.CutPrefix(word, startShare); ok {
			s, err := readShare(text)
			if err != nil {
				return err
			}
			if len(in.shares) == 0 {
				in.config.Modules = append(in.config.Modules, in.config.ShareModules...)
			}
			in.shares = append(in.shares, s)
		}
	}
	return nil
}

// startService starts the program of a service. The channel, which is closed when it ends, is
// nil if there is no such program.
func (in *initProcess) startService() (<-chan struct{}, error) {
	for _, f := range in.shares {
		if err := f.mount(); err != nil {
			return nil, err
		}
	}
	s := in.config.Start
	if s == nil {
		return nil, nil
	}
	if !strings.HasPrefix(in.config.Port, vsockPort) && !hasPorts() {
		in.config.Port = ""
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	addr, err := addressOf(string(line), s.Addr)
	if err != nil {
		return nil, err
	}
	if name := firstInterface(); name != "" && addr.IsValid() {
		if err := network.LinkUp(name, &wire.InitNetwork{Addr: addr}); err != nil {
			return nil, err
		}
		if err := leadOut(string(line), name); err != nil {
			return nil, err
		}
	}
	self := "/init"
	if _, err := os.Stat(wire.GuestAgent); err == nil { // the root is on a disk: see showAgent
		self = wire.GuestAgent
	}
	argv := []string{self, "exec"}
	if s.Dir != "" {
		argv = append(argv, "--dir", s.Dir)
	}
	if s.User != "" {
		argv = append(argv, "--user", s.User)
	}
	argv = append(append(argv, "--"), s.Argv...)
	env := slices.Concat(os.Environ(), s.Env) // the last one counts
	_ = unix.SetNonblock(0, false)            // useConsole opened it in another mode, in which a shell sees no input
	fmt.Fprintf(os.Stderr, "bakeoff-agent: starting %q\n", s.Argv)
	p, err := in.reaper.Launch(self, argv, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, fault.Op("start "+s.Argv[0], err)
	}
	watchPowerButton(p.(*reaped).terminate)
	watchKeyboard(p.(*reaped).terminate)
	ended := make(chan struct{})
	go func() {
		r, err := p.Wait()
		fmt.Fprintf(os.Stderr, "bakeoff-agent: the program ended: code %d %s %v\n", r.Code, r.Signal, err)
		close(ended)
	}()
	return ended, nil
}

// hasPorts reports whether the machine has a virtio console, on which a host may reach the
// agent. Whoever starts a service by hand gives it none.
func hasPorts() bool {
	found, err := filepath.Glob("/sys/bus/virtio/drivers/virtio_console/virtio*")
	return err == nil && len(found) > 0
}

// addressOf is the address on the kernel's command line, or otherwise.
func addressOf(line string, otherwise netip.Prefix) (netip.Prefix, error) {
	for word := range strings.FieldsSeq(line) {
		if text, ok := strings.CutPrefix(word, startAddr); ok {
			p, err := netip.ParsePrefix(text)
			if err != nil || !p.Addr().Is4() {
				return p, fault.WithFix(fault.New(fault.Invalid, "%s%s on the kernel's command line is not an IPv4 address "+
					"with a prefix length", startAddr, text), "write "+startAddr+"192.0.2.7/24")
			}
			return p, nil
		}
	}
	return otherwise, nil
}

// leadOut gives the guest the router and the name servers of the kernel's command line, if it has
// them.
func leadOut(line, name string) error {
	gateway, resolvers, err := outwardOf(line)
	if err == nil && gateway.IsValid() {
		err = defaultRoute(name, gateway)
	}
	if err != nil || len(resolvers) == 0 {
		return err
	}
	var text strings.Builder
	for _, a := range resolvers {
		fmt.Fprintf(&text, "nameserver %s\n", a)
	}
	const file = "/etc/resolv.conf"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) { // it may lead to a file that does not exist
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

// outwardOf are the router and the name servers on the kernel's command line.
func outwardOf(line string) (gateway netip.Addr, resolvers []netip.Addr, err error) {
	read := func(name, text string) netip.Addr {
		a, perr := netip.ParseAddr(text)
		if err == nil && (perr != nil || name == startGateway && !a.Is4()) {
			err = fault.WithFix(fault.New(fault.Invalid, "%s%s on the kernel's command line is not an address", name, text),
				"write "+startGateway+"192.0.2.1 and "+startResolvers+"192.0.2.1,192.0.2.2")
		}
		return a
	}
	for word := range strings.FieldsSeq(line) {
		if text, ok := strings.CutPrefix(word, startGateway); ok {
			gateway = read(startGateway, text)
		}
		if text, ok := strings.CutPrefix(word, startResolvers); ok {
			for part := range strings.SplitSeq(text, ",") {
				resolvers = append(resolvers, read(startResolvers, part))
			}
		}
	}
	return gateway, resolvers, err
}

// firstInterface is the first network interface other than the loopback; "" if there is
// none. The drivers were loaded before and have created it.
func firstInterface() string {
	paths, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		return ""
	}
	slices.Sort(paths)
	for _, p := range paths {
		if _, err := os.Stat(p + "/device"); err == nil {
			return filepath.Base(p)
		}
	}
	return ""
}

// partitionRoot precedes the name of the partition with the root, instead of the serial
// number of a disk.
const partitionRoot = "partition:"

// findPartition returns the block device of the partition with this name in its table.
func findPartition(name string) (string, error) {
	device, err := findDevice("/sys/class/block/*", func(dir string) bool {
		text, err := os.ReadFile(dir + "/uevent")
		return err == nil && slices.Contains(strings.Split(string(text), "\n"), "PARTNAME="+name)
	})
	if err != nil {
		return "", fmt.Errorf("there is no partition with the name %q", name)
	}
	return "/dev/" + device, nil
}
