// Package archive keeps runs that ended: each as an immutable bundle that its digest names
// (package bundle), and an index of all (package index). Bundles are pushed to registries
// and pulled from them, and may be signed.
//
// A store is a folder:
//
//	store.json        its configuration (Config)
//	oci/              the blobs of bundles, as an OCI image layout
//	runs/ab/DIGITS    one empty file for each bundle: it is complete, and in the index
//	pending/DIGITS    the same for a bundle that is complete, and may not be in the index
//	signatures, replications    what refers to bundles (type referral)
//	index.sqlite      the index, unless a server has it
//	lock
//
// A process that is killed leaves blobs without a file in runs, which prune removes, or a
// file in pending, which the next command that writes moves to runs.
package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/atomicfile"
	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/name"
	"bakeoff/base/strictjson"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/provision/image/layout"
)

// ConfigSchema is the schema of a Config.
const ConfigSchema = "bakeoff/store/v1"

// Config is store.json.
type Config struct {
	Schema string `json:"schema"`
	// Index is postgres://… if a server has the index; "" is a file in the folder.
	Index string `json:"index,omitempty"`
	// Registry is where push and pull go if they name no other place: HOST/NAME.
	Registry string `json:"registry,omitempty"`
	// Key is the file of an SSH key that signs what push sends; Signers is the file with
	// the keys that are trusted (ALLOWED SIGNERS in ssh-keygen(1)).
	Key     string `json:"key,omitempty"`
	Signers string `json:"signers,omitempty"`
	// RequireSignature refuses bundles that nobody in Signers signed.
	RequireSignature bool `json:"require_signature,omitempty"`
}

// The files of a store.
const (
	configFile = "store.json"
	ociDir     = "oci"
	runsDir    = "runs"
	pendingDir = "pending"
	indexFile  = "index.sqlite"
	lockFile   = "lock"
	workDir    = "work" // where bundles are unpacked for a check
)

// Store is an open store.
type Store struct {
	Dir    string
	Config Config
	Index  *index.Index
	// Check refuses a run folder that Add is about to add; nil refuses none. Of a folder that is
	// added all the same, damage says what does not hold.
	Check func(dir string) (damage string, err error)
	// Describe returns what pages say of a run, for the index, and its cautions. Without it
	// a run that is added has neither, until a rebuild.
	Describe func(bundle.Record, analysis.Results) (page []byte, cautions []string, err error)
	blobs    *layout.Layout
}

// Init creates a store in a folder that is empty or does not exist. It makes store.json
// last: without it the folder is not a store.
func Init(ctx context.Context, dir string, c Config) error {
	op := "store init " + dir
	c.Schema = ConfigSchema
	if err := c.check(); err != nil {
		return fault.Op(op, err)
	}
	if _, err := os.Stat(filepath.Join(dir, configFile)); err == nil {
		return fault.WithFix(fault.New(fault.Invalid, "%s: the folder contains a store already", op),
			"edit "+filepath.Join(dir, configFile)+" to change its settings")
	}
	if old, err := os.ReadDir(dir); err == nil {
		for _, e := range old { // what an Init that was killed left
			if !slices.Contains([]string{ociDir, runsDir, pendingDir, workDir, lockFile}, e.Name()) &&
				!strings.HasPrefix(e.Name(), indexFile) {
				return fault.WithFix(fault.New(fault.Invalid, "%s: the folder is not empty; it contains %q", op, e.Name()),
					"name a new folder")
			}
		}
	}
	for _, d := range []string{runsDir, pendingDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			return fault.Wrap(fault.Lab, op, err)
		}
	}
	if _, err := layout.Open(filepath.Join(dir, ociDir)); err != nil {
		return fault.Op(op, err)
	}
	x, err := index.Open(ctx, cmp.Or(c.Index, filepath.Join(dir, indexFile)))
	if err != nil {
		return fault.Op(op, err)
	}
	if err := x.Close(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	mode := fs.FileMode(0o666)
	if at, err := url.Parse(c.Index); err != nil || at.User != nil && strings.Contains(at.User.String(), ":") {
		mode = 0o600 // it has a password
	}
	return fault.Wrap(fault.Lab, op, atomicfile.Write(filepath.Join(dir, configFile), append(b, '\n'), mode))
}

// check refuses settings that cannot work.
func (c Config) check() error {
	switch {
	case c.Schema != ConfigSchema:
		return fault.New(fault.Invalid, "the schema is %.60q, but this program reads %q", c.Schema, ConfigSchema)
	case c.Index != "" && !index.IsServer(c.Index):
		return fault.WithFix(fault.New(fault.Invalid, "%q is not a database", c.Index),
			"write postgres://USER@HOST/DATABASE, or leave it out for a file of SQLite")
	case c.RequireSignature && c.Signers == "":
		return fault.WithFix(fault.New(fault.Invalid, "the store requires signatures, but trusts no key"),
			"name a file of trusted keys: --signers FILE")
	}
	return nil
}

// maxConfig bounds store.json, in bytes.
const maxConfig = 64 << 10

// Open opens a store.
func Open(ctx context.Context, dir string) (*Store, error) {
	s, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	if err := s.checkIndexFile(); err != nil {
		return nil, err
	}
	return s.openIndex(ctx)
}

// OpenToRebuild opens a store whose index is to be made again. It removes an index that is damaged.
func OpenToRebuild(ctx context.Context, dir string) (*Store, error) {
	s, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	if !index.IsServer(s.indexPlace()) {
		l, err := lock.Wait(ctx, filepath.Join(s.Dir, lockFile))
		if err != nil {
			return nil, fault.Op("store", err)
		}
		defer l.Release()
		if err := index.RemoveDamaged(ctx, s.indexPlace()); err != nil {
			return nil, err
		}
	}
	return s.openIndex(ctx)
}

// checkIndexFile refuses an index that is missing or empty, while the store has runs: the list of
// them would be empty.
func (s *Store) checkIndexFile() error {
	if index.IsServer(s.indexPlace()) {
		return nil
	}
	info, err := os.Stat(s.indexPlace())
	if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // opening it tells
	}
	all, err := s.Bundles()
	if err != nil || len(all) == 0 {
		return err
	}
	return fault.WithFix(fault.New(fault.Lab, "the index %s is missing or empty, but the store has %s", s.indexPlace(),
		unit.Count(len(all), "run")), "run bakeoff store rebuild")
}

func (s *Store) openIndex(ctx context.Context) (_ *Store, err error) {
	if s.Index, err = index.Open(ctx, s.indexPlace()); err != nil {
		return nil, err
	}
	s.Index.Again = s
	return s, nil
}

// openFiles opens a store without its index.
func openFiles(dir string) (*Store, error) {
	file := filepath.Join(dir, configFile)
	b, err := bounded.ReadFile(file, maxConfig)
	if _, missing := os.Lstat(dir); errors.Is(missing, fs.ErrNotExist) {
		return nil, fault.WithFix(fault.New(fault.NotFound, "the folder of the store, %s, does not exist", dir),
			"run bakeoff store init "+dir+", or name another folder: --store FOLDER")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.WithFix(fault.New(fault.NotFound, "%s is not a store: it has no %s", dir, configFile),
			"run bakeoff store init "+dir+", or name another folder: --store FOLDER")
	}
	if err != nil {
		return nil, fault.Op("store", err)
	}
	s := &Store{Dir: dir}
	if err := strictjson.Decode(b, &s.Config); err != nil {
		return nil, fault.Wrap(fault.Invalid, file, err)
	}
	if err := s.Config.check(); err != nil {
		return nil, fault.Op(file, err)
	}
	if s.blobs, err = layout.Open(filepath.Join(dir, ociDir)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) indexPlace() string { return cmp.Or(s.Config.Index, filepath.Join(s.Dir, indexFile)) }

// Close closes the index.
func (s *Store) Close() error {
	if s.Index == nil {
		return nil
	}
	return s.Index.Close()
}

// changeStore calls do while no other process changes the store, after finishing what a killed
// process began.
func (s *Store) changeStore(ctx context.Context, do func() error) error {
	l, err := lock.Wait(ctx, filepath.Join(s.Dir, lockFile))
	if err != nil {
		return fault.Op("store", err)
	}
	defer l.Release()
	if err := s.finishPending(ctx); err != nil {
		return err
	}
	return do()
}

// finishPending adds what is pending to the index.
func (s *Store) finishPending(ctx context.Context) error {
	left, err := os.ReadDir(filepath.Join(s.Dir, pendingDir))
	if err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	for _, e := range left {
		digest := "sha256:" + e.Name()
		if !name.ValidDigest(digest) {
			continue
		}
		if err := s.addToIndex(ctx, digest); err != nil {
			return err
		}
	}
	return nil
}

// pastOf adds what a history needs of a bundle, whose marker is a file. Without its results, it
// has no history.
func (s *Store) pastOf(e index.Entry, marker string) (index.Entry, error) {
	m, _, err := s.Manifest(e.Bundle)
	if err != nil {
		return e, err
	}
	text, err := s.Results(m)
	if fault.Is(err, fault.NotFound) {
		return e, nil // verify says that they are missing
	}
	if err != nil {
		return e, err
	}
	res, err := analysis.ParseResults(text)
	if err != nil {
		return e, fault.Op("bundle "+e.Bundle, err)
	}
	own := res
	own.Contenders = slices.Clone(res.Contenders) // Describe may change those of res
	past := e.Record.Past(own, e.Bundle).Condensed()
	if damage, err := bounded.ReadFile(marker, maxDamage); err != nil {
		return e, fault.Wrap(fault.Lab, "store", err)
	} else if len(damage) > 0 {
		*past.Damage = string(damage)
	}
	if s.Describe != nil {
		if e.Page, past.Cautions, err = s.Describe(e.Record, res); err != nil {
			return e, fault.Op("bundle "+e.Bundle, err)
		}
	}
	e.Past = &past
	return e, nil
}

// addToIndex adds a pending bundle to the index.
func (s *Store) addToIndex(ctx context.Context, digest string) error {
	e, err := s.Entry(digest)
	if err == nil {
		e, err = s.pastOf(e, s.pending(digest))
	}
	if err != nil {
		return err
	}
	if err := s.Index.Add(ctx, e); err != nil {
		return err
	}
	to := s.marker(digest)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return fault.Wrap(fault.Lab, "store", atomicfile.Rename(s.pending(digest), to))
}

func (s *Store) pending(digest string) string {
	return filepath.Join(s.Dir, pendingDir, strings.TrimPrefix(digest, "sha256:"))
}

// marker is a file with what does not hold in a bundle, empty if nothing is known.
func (s *Store) marker(digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(s.Dir, runsDir, digits[:2], digits)
}

// Has reports whether the store has a bundle.
func (s *Store) Has(digest string) bool {
	_, err := os.Lstat(s.marker(digest))
	return err == nil
}

// Bundles lists the digests of all bundles, sorted.
func (s *Store) Bundles() (out []string, err error) {
	folders, err := os.ReadDir(filepath.Join(s.Dir, runsDir))
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "store", err)
	}
	for _, f := range folders {
		files, err := os.ReadDir(filepath.Join(s.Dir, runsDir, f.Name()))
		if err != nil {
			return nil, fault.Wrap(fault.Lab, "store", err)
		}
		for _, e := range files {
			if digest := "sha256:" + e.Name(); name.ValidDigest(digest) {
				out = append(out, digest)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// Resolve returns the digest of the bundle that text names: a digest, at least six digits
// of one, or the name of a run. Errors are of kind fault.NotFound if there is none, and
// fault.Invalid if there are several.
func (s *Store) Resolve(ctx context.Context, text string) (string, error) {
	found, err := s.Index.Find(ctx, text)
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fault.WithFix(fault.New(fault.NotFound, "the store has no run %.200q", text),
			"run bakeoff store list, or bakeoff store pull")
	}
	var short []string
	for _, d := range found {
		short = append(short, bundle.Short(d))
	}
	return "", fault.WithFix(fault.New(fault.Invalid, "%.200q names several bundles: %s", text, strings.Join(short, ", ")),
		"name one by its digest")
}

// verifiedBlob reads a blob and verifies its digest.
func (s *Store) verifiedBlob(d v1.Descriptor, most int64) ([]byte, error) {
	return blobIn(s.blobs, d, most)
}

// blobIn reads a blob from a folder and verifies its digest.
func blobIn(in *layout.Layout, d v1.Descriptor, most int64) ([]byte, error) {
	if d.Size > most {
		return nil, fault.New(fault.Invalid, "blob %s has %d bytes; the limit is %d", d.Digest, d.Size, most)
	}
	b, err := bounded.ReadFile(in.Blob(d.Digest), most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.WithFix(fault.New(fault.NotFound, "blob %s is missing in %s", d.Digest, filepath.Dir(in.Dir)),
			"run bakeoff store pull, or add the run folder again")
	}
	if err != nil {
		return nil, fault.Op("store", err)
	}
	if got := layout.Digest(b); got != d.Digest {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s is damaged: its digest is %s", in.Blob(d.Digest), got),
			"remove the file, then run bakeoff store pull or add the run folder again")
	}
	return b, nil
}

// Manifest reads the manifest of a bundle.
func (s *Store) Manifest(digest string) (bundle.Manifest, []byte, error) {
	if !name.ValidDigest(digest) {
		return bundle.Manifest{}, nil, fault.New(fault.Invalid, "%.80q is not a digest", digest)
	}
	b, err := s.verifiedBlob(v1.Descriptor{Digest: bundle.Part{Digest: digest}.Descriptor().Digest}, bundle.MaxManifest)
	if err != nil {
		return bundle.Manifest{}, nil, err
	}
	m, err := bundle.ParseManifest(b)
	return m, b, err
}

// Entry is what the index gets of a bundle.
func (s *Store) Entry(digest string) (index.Entry, error) {
	m, b, err := s.Manifest(digest)
	if err != nil {
		return index.Entry{}, err
	}
	text, err := s.verifiedBlob(m.Config.Descriptor(), bundle.MaxRecord)
	if err != nil {
		return index.Entry{}, err
	}
	r, err := bundle.ParseRecord(text)
	return index.Entry{Record: r, Bundle: digest, Bytes: m.Bytes() + int64(len(b))}, fault.Op("bundle "+digest, err)
}

// Results reads the results of a bundle.
func (s *Store) Results(m bundle.Manifest) ([]byte, error) {
	return s.verifiedBlob(m.Results().Descriptor(), m.Results().Size)
}

// SamplesFile is the Parquet file of a bundle, for programs that read it.
func (s *Store) SamplesFile(m bundle.Manifest) string {
	return s.blobs.Blob(m.Samples().Descriptor().Digest)
}

// Add packs the run folder dir and adds it. added is false if the store has it already.
func (s *Store) Add(ctx context.Context, dir string) (digest string, rec bundle.Record, added bool, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", rec, false, fault.Wrap(fault.Lab, "store add", err)
	}
	err = s.changeStore(ctx, func() error {
		p, err := bundle.Pack(dir, filepath.Base(abs), func(write func(io.Writer) error) (v1.Descriptor, error) {
			return s.storeBlob(ctx, write)
		})
		if err != nil {
			return err
		}
		rec = p.Record
		digest = layout.Digest(p.Encoded).String()
		if s.Has(digest) {
			return nil
		}
		damage := ""
		if s.Check != nil {
			if damage, err = s.Check(dir); err != nil {
				return err
			}
		}
		added = true
		return s.commit(ctx, p.Encoded, damage)
	})
	return digest, rec, added, fault.Op("store add "+dir, err)
}

// storeBlob stores what write writes as a blob.
func (s *Store) storeBlob(ctx context.Context, write func(io.Writer) error) (v1.Descriptor, error) {
	file := s.blobs.PartialPath("pack") // one process at a time packs
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return v1.Descriptor{}, fault.Wrap(fault.Lab, "store", err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(file)
	}()
	meter := layout.NewMeter()
	if err := write(io.MultiWriter(f, meter)); err != nil {
		return v1.Descriptor{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return v1.Descriptor{}, fault.Wrap(fault.Lab, "store", err)
	}
	d := meter.Descriptor()
	return d, s.blobs.Put(ctx, d, f)
}

// maxDamage bounds what a marker says, in bytes.
const maxDamage = 4 << 10

// commit makes a bundle whose parts are there a part of the store. damage says what does not
// hold in it, as far as that is known.
func (s *Store) commit(ctx context.Context, manifest []byte, damage string) error {
	d, err := s.blobs.PutBytes(manifest, "")
	if err != nil {
		return err
	}
	digest := d.Digest.String()
	if err := atomicfile.Write(s.pending(digest), []byte(damage[:min(len(damage), maxDamage)]), 0o666); err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return s.addToIndex(ctx, digest)
}

// Rebuild makes the index again from the bundles. It reads no bundle as a whole. The
// number of runs is the first result. In a database of a server it replaces only the runs
// of this store. progress is called after each run; nil is allowed.
func (s *Store) Rebuild(ctx context.Context, progress func(done, all int)) (n int, err error) {
	err = s.changeStore(ctx, func() error {
		all, err := s.Bundles()
		if err != nil {
			return err
		}
		only := []string(nil)
		if index.IsServer(s.Config.Index) {
			only = all
		}
		err = s.Index.Replace(ctx, only, func() (index.Entry, bool, error) {
			if n == len(all) {
				return index.Entry{}, false, nil
			}
			e, err := s.Entry(all[n])
			if err == nil {
				e, err = s.pastOf(e, s.marker(all[n]))
			}
			n++
			if progress != nil {
				progress(n, len(all))
			}
			return e, true, err
		})
		return err
	})
	return n, fault.Op("store rebuild", err)
}
