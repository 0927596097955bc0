package vm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/journal"
	"bakeoff/base/lock"
	"bakeoff/base/sleep"
	"bakeoff/provision/vm/manifest"
)

// Event is something that happened to a guest.
type Event struct {
	At    time.Time `json:"date"`
	Type  EventType `json:"type"`
	UUID  string    `json:"uuid,omitzero"`
	Alias string    `json:"alias,omitempty"`
	// Changes are the properties that have changed, and the state.
	Changes []manifest.Change `json:"changes,omitempty"`
	Name    string            `json:"name,omitempty"` // of a snapshot
	Why     string            `json:"why,omitempty"`
}

// EventType is the kind of an event.
type EventType string

// The kinds.
const (
	EventCreate      EventType = "create"
	EventModify      EventType = "modify"
	EventSnapshot    EventType = "create-snapshot"
	EventRollback    EventType = "rollback-snapshot"
	EventDrop        EventType = "delete-snapshot"
	EventReprovision EventType = "reprovision"
	EventDelete      EventType = "delete"
	EventReady       EventType = "ready" // of a follower: it begins
)

// chapter is a line of the history of a guest: what was done, and its manifest since.
type chapter struct {
	At    time.Time      `json:"at"`
	Type  EventType      `json:"type"`
	Name  string         `json:"name,omitempty"`
	Guest manifest.Guest `json:"guest"`
	// ID tells a repetition after a kill.
	ID string `json:"id,omitempty"`
}

const (
	fileHistory = "history.ndjson" // of a guest; a command that holds its lock writes it
	fileDeleted = "deleted.ndjson" // of the store
	// maxHistory is the size of a history above which its older lines are dropped, in bytes,
	// and keptChapters how many stay.
	maxHistory   = 1 << 20
	keptChapters = 100
	// lastEventsAge and lastEvents limit the events that the note of a deletion repeats.
	lastEventsAge = time.Minute
	lastEvents    = 100
)

var chapters = journal.Format[chapter]{Name: fileHistory,
	Check: func(c chapter, _ bool) error {
		if c.Type == "" {
			return errors.New("a line has no type")
		}
		return nil
	},
	Fix: "remove the file: only `bakeoff vm events` reads it"}

// deletion is a line of the journal of guests that were deleted.
type deletion struct {
	At    time.Time `json:"at"`
	UUID  string    `json:"uuid"`
	Alias string    `json:"alias,omitempty"`
	// Made is when the guest was created: it tells a repetition after a kill.
	Made time.Time `json:"made,omitzero"`
	// Last are the events shortly before, which a follower may not have read yet.
	Last []Event `json:"last,omitempty"`
}

var deletions = journal.Format[deletion]{Name: fileDeleted,
	Check: func(d deletion, _ bool) error {
		if d.UUID == "" {
			return errors.New("a line has no uuid")
		}
		return nil
	},
	Fix: "remove the file: only `bakeoff vm events` reads it"}

// appendTo adds a line to a journal that may not exist yet, unless skip says that it has it.
func appendTo[T any](f journal.Format[T], name string, line T, skip func(have []T) bool) (have []T, err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	w, have, err := f.Resume(file)
	if err != nil || skip(have) {
		return have, err
	}
	return append(have, line), w.Append(line)
}

// record notes in the folder of a guest what was done. Its caller holds a lock of the guest. A
// kill before it loses nothing: the next line, or the reader, sees the manifest that is new.
func record(dir string, t EventType, name, id string) error {
	c := chapter{At: time.Now().UTC(), Type: t, Name: name, ID: id}
	if err := readJSON(filepath.Join(dir, fileManifest), &c.Guest); err != nil {
		return err
	}
	path := filepath.Join(dir, fileHistory)
	have, err := appendTo(chapters, path, c, func(have []chapter) bool {
		return id != "" && len(have) > 0 && have[len(have)-1].ID == id
	})
	if err != nil {
		return fault.Op("history", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() < maxHistory || len(have) <= keptChapters {
		return err
	}
	return shorten(path, have[len(have)-keptChapters:])
}

// shorten replaces a history by its last lines.
func shorten(path string, last []chapter) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := chapters.New(f)
	for _, c := range last {
		if err == nil {
			err = w.Append(c)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// noteDeleted notes that a guest was deleted, whose folder still has its files. Its caller
// holds the lock of the store.
func (s *Store) noteDeleted(dir, uuid string) error {
	var m manifest.Guest
	err := readJSON(filepath.Join(dir, fileManifest), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was noted before its files were removed
	}
	d := deletion{At: time.Now().UTC(), UUID: uuid, Alias: m.Alias}
	if past, perr := readLines(chapters, filepath.Join(dir, fileHistory)); perr == nil && len(past) > 0 {
		d.Made = past[0].At
	}
	if events, perr := eventsIn(dir, uuid); perr == nil {
		events = slices.DeleteFunc(events, func(e Event) bool { return d.At.Sub(e.At) > lastEventsAge })
		slices.SortStableFunc(events, earlier)
		d.Last = events[max(0, len(events)-lastEvents):]
	}
	path := filepath.Join(s.Dir(), fileDeleted)
	_, aerr := appendTo(deletions, path, d, func(have []deletion) bool {
		return slices.ContainsFunc(have, func(x deletion) bool { return x.UUID == uuid && x.Made.Equal(d.Made) })
	})
	return errors.Join(err, aerr, rotate(path, maxHistory))
}

// readLines reads a journal; without a file it has no lines.
func readLines[T any](f journal.Format[T], name string) ([]T, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, _, err := f.Read(file)
	return lines, err
}

// Events returns what happened to a guest, or with "" to all, the oldest first. Of a guest that
// was deleted, only that is known.
func (s *Store) Events(uuid string) ([]Event, error) { return s.events(uuid, false) }

// events also returns, with last, the events shortly before a deletion.
func (s *Store) events(uuid string, last bool) ([]Event, error) {
	gone, err := readLines(deletions, filepath.Join(s.Dir(), fileDeleted))
	if err != nil {
		return nil, err
	}
	var out []Event
	for _, d := range gone {
		if uuid == "" || d.UUID == uuid {
			if last {
				out = append(out, d.Last...)
			}
			out = append(out, Event{At: d.At, Type: EventDelete, UUID: d.UUID, Alias: d.Alias})
		}
	}
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if isLeftover(name) || uuid != "" && uuid != name {
			continue
		}
		events, err := eventsIn(s.dirOf(name), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fault.Op("guest "+name, err)
		}
		out = append(out, events...)
	}
	slices.SortStableFunc(out, earlier)
	return out, nil
}

func earlier(a, b Event) int { return a.At.Compare(b.At) }

// eventsIn returns the events of a guest from its folder.
func eventsIn(dir, uuid string) (out []Event, err error) {
	past, err := readLines(chapters, filepath.Join(dir, fileHistory))
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(dir, fileManifest))
	if err != nil {
		return nil, err
	}
	now := chapter{At: info.ModTime().UTC(), Type: EventModify}
	if err := readJSON(filepath.Join(dir, fileManifest), &now.Guest); err != nil {
		return nil, err
	}
	if !lock.Held(filepath.Join(dir, fileChange)) { // who holds it is about to note the change
		past = append(past, now)
	}
	for i, c := range past {
		e := Event{At: c.At, Type: c.Type, UUID: uuid, Alias: c.Guest.Alias, Name: c.Name}
		if i > 0 {
			e.Changes = manifest.Diff(past[i-1].Guest, c.Guest)
		}
		if e.Type != EventModify || len(e.Changes) > 0 {
			out = append(out, e)
		}
	}
	states, err := readLines(transitions, filepath.Join(dir, fileJournal))
	if err != nil {
		return nil, err
	}
	var old any
	for _, t := range states {
		if old != any(t.State) {
			out = append(out, Event{At: t.At, Type: EventModify, UUID: uuid, Alias: now.Guest.Alias, Why: t.Why,
				Changes: []manifest.Change{{Path: "state", Old: old, New: t.State, When: manifest.Live}}})
		}
		old = t.State
	}
	return out, nil
}

// followTime is the time between two looks at the journals.
const followTime = 200 * time.Millisecond

// Follow calls show for each event of a guest, or with "" of all, as it happens, until ctx
// ends or show returns an error. It begins with those after the moment since.
func (s *Store) Follow(ctx context.Context, uuid string, since time.Time, show func(Event) error) error {
	seen := map[string]bool{}
	for {
		all, err := s.events(uuid, true)
		if err != nil {
			return err
		}
		for _, e := range all {
			key := e.At.String() + " " + e.UUID + " " + string(e.Type)
			if seen[key] || !e.At.After(since) {
				continue
			}
			seen[key] = true
			if err := show(e); err != nil {
				return err
			}
		}
		if sleep.For(ctx, followTime) != nil {
			return nil
		}
	}
}
