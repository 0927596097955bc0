package rescue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn"
)

// Host is the name of the rescue system for the OpenSSH client.
const Host = "rescue"

const (
	memory = 4 * unit.GiB
	// bootTime bounds how long the machine takes to answer, under emulation on a busy host.
	bootTime = 15 * time.Minute
	askEvery = 2 * time.Second
	sayEvery = 30 * time.Second
)

// Emulated is the processor of a machine without KVM. It has no ERMS: with it, Linux clears
// pages byte by byte, which QEMU 7.2 emulates so slowly that the kernel reports lockups.
const Emulated = "max,-erms"

// Options describe the machine.
type Options struct {
	Host   conn.Conn // this machine
	Agent  string    // bakeoff-agent of this machine
	Dir    string    // of the machine: it exists, and whoever made it removes it
	Images []*Image
	// Write says that what the machine writes goes to the images.
	Write bool
	Proxy string            // for HTTP in the rescue system; "" is none
	Say   func(line string) // progress, for a person
}

// Guest is a machine in which the rescue system runs. It ends with this process.
type Guest struct {
	*qemu.Guest
	Config string // of the OpenSSH client, with the name Host
	say    func(string)
}

// Start starts the rescue system in a machine with the images as its disks.
func (s System) Start(ctx context.Context, o Options) (*Guest, error) {
	m := qemu.Machine{Program: qemu.Program, Label: "install", Kind: qemu.Q35, CPUs: 2, Memory: memory, Dir: o.Dir,
		Emulated: Emulated, Ports: []qemu.Port{{Host: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0),
			Guest: 22}}}
	var err error
	if m.Variables, err = o.variables(); err != nil {
		return nil, err
	}
	for _, i := range o.Images {
		d := qemu.Disk{Serial: i.Serial, Path: i.Path, Format: "raw", Snapshot: !o.Write, Cache: "unsafe", AIO: "threads"}
		if i.New && !o.Write {
			d.Path = filepath.Join(o.Dir, i.Serial)
			if err := sparse(d.Path, i.Size); err != nil {
				return nil, err
			}
		}
		m.Disks = append(m.Disks, d)
	}
	key, err := o.makeKey(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Boot(&m, key, o.Proxy); err != nil {
		return nil, err
	}
	if err := m.Choose(ctx, o.Host, nil, o.Agent, "", qemu.OVMFCode); err != nil {
		return nil, err
	}
	g := &Guest{say: o.Say}
	o.Say("rescue system: starting, with " + map[string]string{qemu.KVM: "KVM",
		qemu.TCG: "emulation, which takes minutes"}[m.Accel])
	if g.Guest, err = qemu.Start(ctx, qemu.Place{Host: o.Host, Timeout: time.Minute}, m); err != nil {
		return nil, err
	}
	if err = g.configure(ctx, s); err != nil {
		return nil, errors.Join(err, g.Kill(context.WithoutCancel(ctx)))
	}
	return g, nil
}

// Boot makes a machine start the rescue system, which accepts a public key for root.
func (s System) Boot(m *qemu.Machine, key, proxy string) error {
	environment, err := proxyLine(proxy)
	if err != nil {
		return err
	}
	m.Kernel, m.Initrd = filepath.Join(s.Dir, kernelFile), filepath.Join(s.Dir, initrdFile)
	fields := strings.Fields(key)
	if len(fields) < 2 {
		return fault.New(fault.Lab, "%q is not a public key", key)
	}
	m.Append = fmt.Sprintf(`root=LABEL=rescue mitigations=off nowatchdog `+
		`"systemd.set_credential=ssh.authorized_keys.root:%s %s"%s`, fields[0], fields[1], environment)
	m.Disks = append(m.Disks, qemu.Disk{Serial: "rescue", Path: filepath.Join(s.Dir, diskFile), Format: "raw",
		Snapshot: true})
	return nil
}

// address matches an address of a proxy that can be on the command line of a kernel.
var address = lazy.Compile(`^http://[A-Za-z0-9.:\[\]_-]+/?$`)

// proxyLine makes the rescue system set http_proxy. The host is 10.0.2.2 in the machine.
func proxyLine(proxy string) (string, error) {
	if proxy == "" {
		return "", nil
	}
	u, err := url.Parse(proxy)
	if err != nil || !address.MatchString(proxy) {
		return "", fault.WithFix(fault.New(fault.Invalid, "http_proxy: %s is not an address that the rescue system can use",
			safetext.Line(proxy)), "write http://HOST:PORT")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsLoopback() || u.Hostname() == "localhost" {
		u.Host = net.JoinHostPort("10.0.2.2", cmp.Or(u.Port(), "80"))
	}
	return fmt.Sprintf(` "systemd.set_credential=tmpfiles.extra:f+ /etc/environment 0644 root root - http_proxy=%s"`,
		u), nil
}

// variables returns the file in which the firmware keeps its variables: that of the first image,
// or a copy of it.
func (o Options) variables() (string, error) {
	of := o.Images[0].Variables()
	empty, err := os.ReadFile(qemu.OVMFVariables)
	if err != nil {
		return "", err
	}
	text := empty
	if !o.Images[0].New {
		have, err := os.ReadFile(of)
		switch {
		case err == nil && len(have) != len(empty):
			return "", fault.WithFix(fault.New(fault.Invalid, "%s has %d bytes; a file with variables of this "+
				"firmware must have %d bytes",
				safetext.Line(of), len(have), len(empty)), "remove the file; bakeoff install verify then misses the boot entry")
		case err == nil && o.Write:
			return of, nil
		case err == nil:
			text = have
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		}
	}
	if !o.Write {
		of = filepath.Join(o.Dir, "efivars")
	}
	return of, atomicfile.Write(of, text, 0o600)
}

func sparse(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// makeKey makes the key of this run, and returns its public part.
func (o Options) makeKey(ctx context.Context) (string, error) {
	file := filepath.Join(o.Dir, "key")
	if _, err := conn.Output(ctx, o.Host, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bakeoff", "-f",
		file); err != nil {
		return "", err
	}
	text, err := os.ReadFile(file + ".pub")
	return string(text), err
}

// configure writes the configuration of the OpenSSH client.
func (g *Guest) configure(ctx context.Context, s System) error {
	at, err := g.Forward(ctx, 22)
	if err != nil {
		return err
	}
	g.Config = filepath.Join(g.Dir, "ssh")
	text := s.SSH(at.Port(), filepath.Join(g.Dir, "key"))
	return os.WriteFile(g.Config, []byte(text), 0o600)
}

// SSH is a configuration of the OpenSSH client for the rescue system behind a port of this
// machine. key is the file with the private key.
func (s System) SSH(port uint16, key string) string {
	return fmt.Sprintf("Host %[1]s\n  HostKeyAlias %[1]s\n  UserKnownHostsFile %[2]q\n  HostName 127.0.0.1\n"+
		"  Port %[3]d\n  User root\n  IdentityFile %[4]q\n  IdentitiesOnly yes\n  GlobalKnownHostsFile none\n"+
		"  LogLevel ERROR\n",
		Host, filepath.Join(s.Dir, knownFile), port, key)
}

// Await calls try until it succeeds. An error that is not of kind fault.Lab ends it, and so do
// the end of the machine, and bootTime.
func (g *Guest) Await(ctx context.Context, try func() error) error {
	began, said := time.Now(), time.Now()
	for {
		err := try()
		if err == nil || ctx.Err() != nil || !fault.Is(err, fault.Lab) {
			return err
		}
		select {
		case <-g.Process.Ended():
			return g.explain(errors.New("the machine ended"))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askEvery):
		}
		if time.Since(began) > bootTime {
			return g.explain(fmt.Errorf("the rescue system did not answer within %v: %w", bootTime, err))
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			g.say(fmt.Sprintf("rescue system: started %v ago: %s", time.Since(began).Round(time.Second), g.lastLine()))
		}
	}
}

// explain adds what QEMU and the console said last.
func (g *Guest) explain(err error) error {
	text := fmt.Sprintf("rescue system: %v", err)
	for _, said := range []string{g.Messages(), plain(g.Process.Printed())} {
		if last := safetext.LastLines(said, 3); last != "" {
			text += ": " + last
		}
	}
	return fault.New(fault.Lab, "%s", text)
}

// control matches the sequences by which firmware and programs clear a terminal, and color it.
var control = lazy.Compile("\x1b\\[[0-9;:=?]*[A-Za-z]")

// plain is text without these.
func plain(text []byte) string { return string(control.ReplaceAll(text, nil)) }

// lastLine is the last line of the console.
func (g *Guest) lastLine() string {
	line := safetext.LastLines(plain(g.Process.Printed()), 1)
	return safetext.Clip(cmp.Or(line, "the console is empty"), 100)
}
