package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// fakePool is the label of a pool.
type fakePool struct {
	Name, GUID, HostID, KeySum string
	Devices                    []string
	Exported                   bool
	Props                      map[string]string
	Sets                       map[string]map[string]string
}

const labelAt, labelSize = 16 << 10, 64 << 10

// label reads the label in a partition.
func (*fake) label(device string) (*fakePool, error) {
	f, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, labelSize)
	if _, err := f.ReadAt(b, labelAt); err != nil {
		return nil, err
	}
	p := &fakePool{}
	if err := json.Unmarshal(bytes.TrimRight(b, "\x00"), p); err != nil {
		return nil, errors.New("failed to unpack label 0")
	}
	return p, nil
}

// writeLabels writes the label of a pool to all of its devices.
func (f *fake) writeLabels(p *fakePool) error {
	for _, d := range p.Devices {
		if err := f.writeLabel(d, p); err != nil {
			return err
		}
	}
	return nil
}

func (*fake) writeLabel(device string, p *fakePool) error {
	text, err := json.Marshal(p)
	if err != nil || len(text) > labelSize {
		return fmt.Errorf("label: %d bytes, %w", len(text), err)
	}
	f, err := os.OpenFile(device, os.O_RDWR|syscall.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(append(text, make([]byte, labelSize-len(text))...), labelAt)
	return err
}

// imported is a pool that this machine has imported.
type imported struct {
	Devices          []string
	Root             string
	ReadOnly, HasKey bool
}

func (f *fake) imported(name string) (*imported, *fakePool, error) {
	b, err := os.ReadFile(f.run + "/pool-" + name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open '%s': no such pool", name)
	}
	i := &imported{}
	if err := json.Unmarshal(b, i); err != nil {
		return nil, nil, err
	}
	p, err := f.label(i.Devices[0])
	return i, p, err
}

func (f *fake) setImported(name string, i imported) error {
	b, _ := json.Marshal(i)
	return os.WriteFile(f.run+"/pool-"+name, b, 0o600)
}

// options splits arguments into values of options and the rest.
func options(args []string, withValue string) (opts map[string][]string, rest []string) {
	opts = map[string][]string{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case len(a) == 2 && a[0] == '-' && strings.Contains(withValue, a[1:]) && i+1 < len(args):
			i++
			opts[a[1:]] = append(opts[a[1:]], args[i])
		case len(a) > 1 && a[0] == '-':
			opts[a[1:]] = append(opts[a[1:]], "")
		default:
			rest = append(rest, a)
		}
	}
	return opts, rest
}

var poolOptions = []string{"ashift", "autotrim", "compatibility"}

func (f *fake) zpool(args []string) error {
	switch args[0] {
	case "sync":
		if _, _, err := f.imported(args[1]); err != nil {
			return err
		}
		return f.flush("pool/" + args[1])
	case "create":
		o, rest := options(args[1:], "oOmR")
		name, devices := rest[0], rest[1:]
		if devices[0] == "mirror" {
			devices = devices[1:]
		} else if len(devices) != 1 {
			return fmt.Errorf("create: %q", rest)
		}
		root := strings.Join(o["R"], "") // NetBSD gives none
		if _, _, err := f.imported(rest[0]); err == nil {
			return fmt.Errorf("cannot create '%s': pool already exists", rest[0])
		}
		p := &fakePool{Name: name, Devices: devices, Props: map[string]string{"guid": "7" + strconv.Itoa(os.Getpid())},
			Sets: map[string]map[string]string{rest[0]: {"mountpoint": o["m"][0]}}}
		for _, kv := range o["o"] {
			k, v, _ := strings.Cut(kv, "=")
			if !slices.Contains(poolOptions, k) && !strings.HasPrefix(k, "feature@") {
				return fmt.Errorf("property '%s' is not a valid pool property", k)
			}
			p.Props[k] = v
		}
		for _, kv := range o["O"] {
			k, v, _ := strings.Cut(kv, "=")
			p.Sets[rest[0]][k] = v
		}
		if at := p.Sets[name]["keylocation"]; at != "" {
			key, err := os.ReadFile(strings.TrimPrefix(at, "file://"))
			if err != nil || len(key) < 8 {
				return fmt.Errorf("cannot create '%s': Failed to open key material file: %w", name, err)
			}
			sum := sha256.Sum256(key)
			p.KeySum = hex.EncodeToString(sum[:])
		}
		p.HostID = f.hostID()
		if err := errors.Join(os.RemoveAll(f.keep+"/pool/"+name), os.MkdirAll(f.keep+"/pool/"+name, 0o755),
			f.flush("pool/"+name)); err != nil {
			return err
		}
		if err := f.writeLabels(p); err != nil {
			return err
		}
		return f.setImported(name, imported{Devices: devices, Root: root, HasKey: true})
	case "import":
		o, rest := options(args[1:], "oRd")
		if o["d"] == nil {
			o["d"] = []string{"/dev/wedges/rpool"}
		}
		p, err := f.label(o["d"][0])
		if err != nil || p.Name != rest[0] {
			return fmt.Errorf("cannot import '%s': no such pool available", rest[0])
		}
		if !p.Exported && p.HostID != f.hostID() {
			return fmt.Errorf("cannot import '%s': pool was previously in use from another system", rest[0])
		}
		if _, _, err := f.imported(rest[0]); err == nil {
			return errors.New("a pool with that name already exists")
		}
		readOnly := slices.Contains(o["o"], "readonly=on")
		if p.Exported = false; !readOnly {
			if err := f.writeLabels(p); err != nil {
				return err
			}
		}
		return f.setImported(rest[0], imported{Devices: o["d"], Root: strings.Join(o["R"], ""), ReadOnly: readOnly,
			HasKey: p.KeySum == ""})
	case "export":
		i, p, err := f.imported(args[1])
		if err != nil {
			return err
		}
		for name := range p.Sets {
			if f.mountedAt(i, p, name) {
				return fmt.Errorf("cannot export '%s': pool is busy", args[1])
			}
		}
		if p.Exported = true; !i.ReadOnly {
			if err := errors.Join(f.flush("pool/"+args[1]), f.writeLabels(p)); err != nil {
				return err
			}
		}
		return os.Remove(f.run + "/pool-" + args[1])
	case "list":
		_, rest := options(args[1:], "o")
		if len(rest) == 0 { // all pools: the probe asks before the installation, when none is imported
			return nil
		}
		i, _, err := f.imported(rest[0])
		if err != nil {
			return err
		}
		fmt.Printf("%s\n\t%s\n", rest[0], strings.Join(i.Devices, "\n\t"))
		return nil
	case "set":
		k, v, _ := strings.Cut(args[1], "=")
		return f.change(args[2], func(p *fakePool) error { p.Props[k] = v; return nil })
	case "get":
		_, rest := options(args[1:], "o")
		if rest[0] == "all" {
			return nil
		}
		_, p, err := f.imported(rest[1])
		if err == nil {
			fmt.Println(p.Props[rest[0]])
		}
		return err
	}
	return fmt.Errorf("unrecognized command '%s'", args[0])
}

// change changes an imported pool, as the real one does: with a transaction group, which has all that
// was written before.
func (f *fake) change(pool string, do func(p *fakePool) error) error {
	i, p, err := f.imported(pool)
	switch {
	case err != nil:
		return err
	case i.ReadOnly:
		return errors.New("pool is read-only")
	}
	if err := do(p); err != nil {
		return err
	}
	return errors.Join(f.flush("pool/"+pool), f.writeLabels(p))
}

func (f *fake) mountpoint(i *imported, p *fakePool, set string) string {
	at := p.Sets[set]["mountpoint"]
	switch at {
	case "", "none":
		return "none"
	case "legacy":
		return at
	}
	return filepath.Join(i.Root, at)
}

func (f *fake) mountedAt(i *imported, p *fakePool, set string) bool {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	at := f.mountpoint(i, p, set)
	if at == "legacy" {
		return bytes.Contains(b, []byte("/pool/"+set+" /"))
	}
	return at != "none" && bytes.Contains(b, []byte("/pool/"+set+" "+at+" "))
}

func (f *fake) zfs(args []string) error {
	name := args[len(args)-1]
	pool, _, _ := strings.Cut(name, "/")
	i, p, err := f.imported(pool)
	if err != nil {
		return err
	}
	switch set := p.Sets[name]; {
	case args[0] != "create" && set == nil:
		return fmt.Errorf("cannot open '%s': dataset does not exist", name)
	case args[0] == "create":
		if set != nil {
			return fmt.Errorf("cannot create '%s': dataset already exists", name)
		}
		if p.Sets[name[:strings.LastIndexByte(name, '/')]] == nil {
			return fmt.Errorf("cannot create '%s': parent does not exist", name)
		}
		o, _ := options(args[1:], "o")
		props := map[string]string{}
		for _, kv := range o["o"] {
			k, v, _ := strings.Cut(kv, "=")
			props[k] = v
		}
		if err := os.MkdirAll(f.keep+"/pool/"+name, 0o755); err != nil {
			return err
		}
		if err := f.change(pool, func(p *fakePool) error { p.Sets[name] = props; return nil }); err != nil {
			return err
		}
		p.Sets[name] = props
		if c := props["canmount"]; c == "noauto" || c == "off" || f.mountpoint(i, p, name)[0] != '/' {
			return nil
		}
		return f.mountSet(i, p, name)
	case args[0] == "mount":
		return f.mountSet(i, p, name)
	case args[0] == "unmount":
		return syscall.Unmount(f.mountpoint(i, p, name), 0)
	case args[0] == "load-key":
		from := set["keylocation"]
		if args[1] == "-L" {
			from = args[2]
		}
		key, err := os.ReadFile(strings.TrimPrefix(from, "file://"))
		sum := sha256.Sum256(key)
		if err != nil || hex.EncodeToString(sum[:]) != p.KeySum {
			return fmt.Errorf("Key load error: Incorrect key provided for '%s'. %w", name, err)
		}
		i.HasKey = true
		return f.setImported(pool, *i)
	case args[0] == "set":
		k, v, _ := strings.Cut(args[1], "=")
		return f.change(pool, func(p *fakePool) error { p.Sets[name][k] = v; return nil })
	case args[0] == "get":
		_, rest := options(args[1:], "o")
		switch prop := rest[0]; prop {
		case "mounted":
			fmt.Println(map[bool]string{true: "yes", false: "no"}[f.mountedAt(i, p, name)])
		case "keystatus":
			fmt.Println(map[bool]string{true: "available", false: "unavailable"}[i.HasKey])
		case "mountpoint":
			fmt.Println(f.mountpoint(i, p, name))
		default:
			value := set[prop]
			if value == "" {
				value = "-"
			}
			fmt.Println(value)
		}
		return nil
	}
	return fmt.Errorf("unrecognized command '%s'", args[0])
}

func (f *fake) mountSet(i *imported, p *fakePool, name string) error {
	if !i.HasKey {
		return fmt.Errorf("cannot mount '%s': encryption key not loaded", name)
	}
	at := f.mountpoint(i, p, name)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	return syscall.Mount(f.keep+"/pool/"+name, at, "", syscall.MS_BIND, "")
}

func (f *fake) zdb(args []string) error {
	p, err := f.label(args[1])
	if err != nil {
		return err
	}
	id, _ := strconv.ParseUint(p.HostID, 16, 32)
	state := 0
	if p.Exported {
		state = 1
	}
	fmt.Printf("    version: 5000\n    name: '%s'\n    state: %d\n    hostid: %d\n", p.Name, state, id)
	return nil
}

func (*fake) hostID() string {
	b, _ := os.ReadFile("/etc/hostid")
	if len(b) != 4 {
		return "00000000"
	}
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(b))
}

func (f *fake) hostid([]string) error {
	fmt.Println(f.hostID())
	return nil
}

func (*fake) zgenhostid(args []string) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(args[1], "0x"), 16, 32)
	if err != nil {
		return err
	}
	return os.WriteFile("/etc/hostid", binary.LittleEndian.AppendUint32(nil, uint32(n)), 0o644)
}
