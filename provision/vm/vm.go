// Package vm keeps guests: machines and containers that live without the command that
// created them.
//
// A guest is a folder: its manifest, a journal of what happened to it, its disks, its logs
// and the sockets of its console and its supervisor. The supervisor is a process that holds
// the lock of the guest, and starts and ends the machine or the container. A guest ends with
// its supervisor, so there are never two of one guest: who holds the lock has the guest.
package vm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/lease"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// The files and folders of a guest.
const (
	fileManifest = "manifest.json"
	fileBoot     = "boot.json"
	fileJournal  = "journal.ndjson"
	fileLife     = "life.lock"    // held by the supervisor
	fileChange   = "change.lock"  // held by a command that changes the guest
	fileConsole  = "console.log"  // what the guest printed
	fileMessages = "messages.log" // of the supervisor
	socketCtl    = "ctl"          // of the supervisor
)

// The beginnings of the names of folders that are not guests yet, or not any more.
const (
	beingMade    = ".new-"
	beingRemoved = ".old-"
)

// Store is where the guests of this machine are.
type Store struct {
	State string // the state folder
	Host  conn.Conn
	Agent string // bakeoff-agent of this machine
	// System is that of Host, as GOOS names it; "" is that of this program.
	System string
	// Containers makes containers. nil uses the drivers that the guests name.
	Containers Containers
	// Machines places machines. nil starts them as processes of their supervisor.
	Machines Machines
}

// Dir is the folder of the guests.
func (s *Store) Dir() string { return filepath.Join(s.State, "vm") }

// Guest is a guest of a store.
type Guest struct {
	manifest.Guest
	Status
	Snapshots []Snapshot `json:"snapshots,omitempty"`
	store     *Store
}

// Path is a file of the guest.
func (g *Guest) Path(name string) string { return filepath.Join(g.store.Dir(), g.UUID, name) }

// ConsoleLog is the file with what the guest printed, and ConsoleSocket that of its console.
func (g *Guest) ConsoleLog() string { return g.Path(fileConsole) }

// label is the name of everything of the guest outside its folder.
func label(uuid string) string { return "vm-" + uuid }

func (s *Store) leases() lease.Folder {
	return lease.Folder{At: leaseMachine{}, State: s.State, Local: true}
}

// envDir is the folder of a container's root and of its runtime.
func (s *Store) envDir(uuid string) string { return s.leases().Place(label(uuid)) }

// apartDir is the folder of what a container has written, where a limit needs a mount point. No mount of the
// container is on it, so the end of the container does not unmount it.
func (s *Store) apartDir(uuid string) string { return filepath.Join(s.State, dirApart, uuid) }

// leaseMachine is this machine for leases.
type leaseMachine struct{ local.Conn }

func (leaseMachine) Keep(_ context.Context, path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return local.Keep(path, data)
}

func (leaseMachine) Remove(_ context.Context, path string) error { return os.RemoveAll(path) }

// NewUUID is a random identifier (RFC 9562, version 4).
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// exclusive takes the lock of the store. It is held for moments only: while folders get
// their names.
func (s *Store) exclusive(ctx context.Context) (*lock.Lock, error) {
	if err := os.MkdirAll(s.Dir(), 0o755); err != nil {
		return nil, fault.Op("guests", err)
	}
	return lock.Wait(ctx, filepath.Join(s.Dir(), "lock"))
}

// Create makes a stopped guest. fill makes its disks in a folder, which becomes the guest's
// when everything is in it. A killed Create leaves nothing that List shows, and the next
// change removes what it left.
func (s *Store) Create(ctx context.Context, m manifest.Guest, boot Boot,
	fill func(dir string) error) (g *Guest, err error) {
	if m.UUID == "" {
		m.UUID = NewUUID()
	}
	giveMACs(&m)
	s.givePaths(&m, boot)
	if boot.Machine == qemu.Q35 && manifest.DriverOf(m) == manifest.QEMU && s.Machines == nil {
		boot.Slots = diskSlots
	}
	if err := s.Sweep(ctx); err != nil {
		return nil, err
	}
	making := filepath.Join(s.Dir(), beingMade+m.UUID)
	held, err := s.begin(ctx, m.UUID, making)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.discard(context.WithoutCancel(ctx), making, m.UUID))
		}
	}()
	err = s.leases().Write(ctx, lease.Lease{Lifetime: lease.Kept, Label: label(m.UUID), Driver: driverOf(m),
		Name: m.Alias, Dir: s.envDir(m.UUID), Owner: "guest " + m.UUID, PID: os.Getpid(), Started: time.Now().UTC()})
	if err == nil {
		filled := make(chan error, 1) // disks take as long as the other files
		go func() {
			if fill == nil {
				filled <- nil
			} else {
				filled <- fill(making)
			}
		}()
		err = errors.Join(writeFirst(making, m, boot), <-filled, ctx.Err())
	}
	if err == nil {
		err = s.appear(ctx, m, making)
	}
	if err != nil {
		return nil, fault.Op("create", err)
	}
	return s.open(m.UUID)
}

// writeFirst writes the files of a guest that was never started.
func writeFirst(making string, m manifest.Guest, boot Boot) error {
	err := errors.Join(writeJSON(filepath.Join(making, fileManifest), m), writeJSON(filepath.Join(making, fileBoot), boot))
	if err != nil {
		return err
	}
	return errors.Join(record(making, EventCreate, "", ""),
		writeTransition(filepath.Join(making, fileJournal), Transition{State: Configured}))
}

// appear makes a folder a guest, unless another guest has one of its addresses.
func (s *Store) appear(ctx context.Context, m manifest.Guest, making string) error {
	whole, err := s.exclusive(ctx)
	if err != nil {
		return err
	}
	defer whole.Release()
	others, err := s.List()
	if err == nil {
		err = conflict(m, others)
	}
	if err != nil {
		return err
	}
	return atomicfile.Rename(making, filepath.Join(s.Dir(), m.UUID))
}

// begin makes the folder of a guest in the making, and locks it.
func (s *Store) begin(ctx context.Context, uuid, making string) (*lock.Lock, error) {
	whole, err := s.exclusive(ctx)
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	if _, err := os.Stat(filepath.Join(s.Dir(), uuid)); err == nil {
		return nil, fault.New(fault.Invalid, "uuid: %s: a guest with this uuid exists", uuid)
	}
	if err := os.Mkdir(making, 0o700); errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.Invalid, "uuid: %s: another command creates a guest with this uuid", uuid)
	} else if err != nil {
		return nil, err
	}
	return lock.Try(filepath.Join(making, fileChange))
}

// discard removes a folder that is not a guest, and what belongs to it.
func (s *Store) discard(ctx context.Context, dir, uuid string) error {
	if s.freebsd() {
		if err := s.removeJail(ctx, uuid); err != nil {
			return err // below the folder may be folders of this machine
		}
	}
	if err := s.freeQuota(ctx, uuid); err != nil {
		return err // only the folder tells what to free
	}
	if err := os.RemoveAll(s.envDir(uuid)); err != nil {
		return err
	}
	return errors.Join(s.freeApart(ctx, uuid), s.leases().Remove(ctx, lease.Lease{Label: label(uuid)}),
		os.RemoveAll(dir))
}

// Sweep removes what killed commands left.
func (s *Store) Sweep(ctx context.Context) error {
	names, err := s.names()
	if err != nil || !slices.ContainsFunc(names, isLeftover) {
		return err
	}
	whole, err := s.exclusive(ctx)
	if err != nil {
		return err
	}
	defer whole.Release()
	for _, name := range names {
		if !isLeftover(name) {
			continue
		}
		uuid := strings.TrimPrefix(strings.TrimPrefix(name, beingMade), beingRemoved)
		dir := filepath.Join(s.Dir(), name)
		held, err := lock.Try(filepath.Join(dir, fileChange))
		if errors.Is(err, lock.ErrHeld) || errors.Is(err, fs.ErrNotExist) {
			continue // its command lives, or has just ended
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, beingRemoved) {
			err = s.noteDeleted(dir, uuid)
		}
		err = errors.Join(err, s.discard(ctx, dir, uuid))
		held.Release()
		if err != nil {
			return fault.Op("remove leftovers of a killed command", err)
		}
	}
	return nil
}

func isLeftover(name string) bool {
	return strings.HasPrefix(name, beingMade) || strings.HasPrefix(name, beingRemoved)
}

// names are those of the folders in the folder of the guests.
func (s *Store) names() ([]string, error) {
	entries, err := os.ReadDir(s.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, fault.Op("guests", err)
}

// List returns all guests, in the order of their UUIDs.
func (s *Store) List() ([]*Guest, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var out []*Guest
	var errs []error
	for _, name := range names {
		if isLeftover(name) {
			continue
		}
		g, err := s.open(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) || fault.Is(err, fault.NotFound): // deleted meanwhile
		case err != nil:
			errs = append(errs, err)
		default:
			out = append(out, g)
		}
	}
	return out, errors.Join(errs...)
}

// open reads a guest.
func (s *Store) open(uuid string) (*Guest, error) {
	g := &Guest{store: s}
	if err := readJSON(filepath.Join(s.Dir(), uuid, fileManifest), &g.Guest); err != nil {
		return nil, err
	}
	if g.UUID != uuid {
		return nil, fault.New(fault.Lab, "the folder %s has the manifest of another guest (%q)",
			filepath.Join(s.Dir(), uuid), g.UUID)
	}
	n, err := g.coming()
	if n != nil && err == nil {
		g.Guest = n.Guest // a killed command has decided so, and the next one finishes it
	}
	return g, errors.Join(err, g.completeRecord(), g.refresh(), g.readSnapshots())
}

// Find returns the guest that a person named: by its UUID, the beginning of one, or its
// alias. Errors are of kind fault.NotFound, or fault.Invalid if several guests have the name.
func (s *Store) Find(name string) (*Guest, error) {
	if len(name) == 36 && !strings.ContainsAny(name, "/.") {
		if g, err := s.open(name); err == nil {
			return g, nil
		}
	}
	all, err := s.List()
	names := map[string]string{}
	for _, g := range all {
		names[g.UUID] = g.Alias
	}
	uuid, nerr := Named(name, names)
	if err != nil && fault.Is(nerr, fault.NotFound) {
		return nil, err
	}
	i := slices.IndexFunc(all, func(g *Guest) bool { return g.UUID == uuid })
	if nerr != nil || i < 0 {
		return nil, nerr
	}
	return all[i], nil
}

// Named returns the UUID of the guest that a person named, out of the aliases of guests by
// their UUIDs. Errors are those of Find.
func Named(name string, aliases map[string]string) (uuid string, err error) {
	var byAlias, byPrefix []string
	for uuid, alias := range aliases {
		if name != "" && alias == name {
			byAlias = append(byAlias, uuid)
		}
		if len(name) >= minPrefix && strings.HasPrefix(uuid, strings.ToLower(name)) {
			byPrefix = append(byPrefix, uuid)
		}
	}
	found := byAlias
	if len(found) == 0 {
		found = byPrefix
	}
	switch len(found) {
	case 0:
		return "", fault.WithFix(fault.New(fault.NotFound, "there is no guest %q", name), "run `bakeoff vm list`")
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	return "", fault.WithFix(fault.New(fault.Invalid, "%q names %d guests", name, len(found)),
		"name one of "+strings.Join(found, ", "))
}

// minPrefix is the length of the shortest beginning of a UUID that names a guest.
const minPrefix = 2

// change takes the lock of a guest for a command that changes it, and finishes what a killed
// one has begun.
func (g *Guest) change(ctx context.Context) (*lock.Lock, error) {
	held, err := g.hold(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.finishLeft(ctx); err != nil {
		held.Release()
		return nil, err
	}
	return held, nil
}

// hold takes the lock of a guest for a command that changes it.
func (g *Guest) hold(ctx context.Context) (*lock.Lock, error) {
	held, err := lock.Wait(ctx, g.Path(fileChange))
	if err != nil {
		return nil, fault.Op("guest "+g.UUID, err)
	}
	if err := g.refresh(); err != nil { // it may have been deleted while this command waited
		held.Release()
		return nil, err
	}
	return held, nil
}

// setAutoboot writes whether the guest starts with the host.
func (g *Guest) setAutoboot(on bool) error {
	if g.Autoboot == on {
		return nil
	}
	g.Autoboot = on
	return errors.Join(writeJSON(g.Path(fileManifest), g.Guest), record(g.Path(""), EventModify, "", ""))
}

// Delete ends the guest and removes it with its disks.
func (g *Guest) Delete(ctx context.Context) error {
	if err := g.store.Sweep(ctx); err != nil {
		return err
	}
	held, err := g.hold(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	if g.IndestructibleZoneroot {
		return fault.WithFix(fault.New(fault.Invalid, "the guest is protected (indestructible_zoneroot: true)"),
			"run `bakeoff vm update "+g.UUID+" indestructible_zoneroot=false`")
	}
	if err := g.end(ctx, Stop{Force: true}); err != nil {
		return err
	}
	return g.remove(ctx)
}

// remove removes the folder of a guest that has ended.
func (g *Guest) remove(ctx context.Context) error {
	gone := filepath.Join(g.store.Dir(), beingRemoved+g.UUID)
	if err := atomicfile.Rename(g.Path(""), gone); errors.Is(err, fs.ErrNotExist) {
		return g.store.Sweep(ctx) // its supervisor has removed it
	} else if err != nil {
		return fault.Op("delete", err)
	}
	whole, err := g.store.exclusive(ctx)
	if err == nil {
		err = g.store.noteDeleted(gone, g.UUID)
		whole.Release()
	}
	return fault.Op("delete", errors.Join(err, g.store.discard(ctx, gone, g.UUID),
		g.store.refreshNetworks(ctx, g.NICs...)))
}

func writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(name, append(b, '\n'), 0o600)
}

// maxJSON bounds the files of a guest, in bytes.
const maxJSON = 4 << 20

func readJSON(name string, v any) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() > maxJSON {
		return fault.New(fault.Lab, "%s has %d bytes; the limit is %d", name, info.Size(), maxJSON)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Lab, name, json.Unmarshal(b, v))
}
