package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/lab/store"
)

// Keep stores what write writes, and returns its digest and size.
type Keep func(write func(io.Writer) error) (v1.Descriptor, error)

// Packed is a bundle in the making: all of its parts were kept.
type Packed struct {
	Manifest Manifest
	Encoded  []byte // of the manifest
	Record   Record
}

// Pack packs the run folder dir, whose run ended. It gives each part to keep. Errors of
// kind fault.Invalid say what is wrong with the folder; such a run is not packed.
func Pack(dir, base string, keep Keep) (p Packed, err error) {
	run, err := store.Open(dir)
	if err != nil {
		return p, err
	}
	defer run.Close()
	rec, res, results, err := read(run, base)
	if err != nil {
		return p, err
	}
	if !validRun(base) {
		return p, fault.WithFix(fault.New(fault.Invalid, "%q cannot be the name of a run in a bundle", base),
			"rename the folder: letters, digits, ., -, _ and ~ are possible")
	}
	files, bytes, err := list(run.FS())
	if err != nil {
		return p, fault.Op(dir, err)
	}
	lines, err := run.Journal()
	if err != nil {
		return p, err
	}
	sums := journalSums(lines)
	rec.Files, rec.Bytes, rec.Lacking = len(files), bytes, lacking(files, sums)
	m := Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: ArtifactType}
	part := func(mediaType types.MediaType, write func(io.Writer) error) (Part, error) {
		d, err := keep(write)
		return partOf(d, mediaType), err
	}
	for i, write := range []func(io.Writer) error{
		func(w io.Writer) error { _, err := w.Write(results); return err },
		func(w io.Writer) error { return WriteSamples(w, rec, res) },
		func(w io.Writer) error { return writeFolder(w, run.FS(), files, sums) },
	} {
		l, err := part(layers[i].mediaType, write)
		if err != nil {
			return p, fault.Op(dir, err)
		}
		m.Layers = append(m.Layers, l)
	}
	text, err := rec.encode()
	if err != nil {
		return p, err
	}
	if m.Config, err = part(RecordType, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return p, err
	}
	encoded, err := m.encode()
	if err != nil {
		return p, err
	}
	if _, err := ParseManifest(encoded); err != nil { // it would be refused elsewhere
		return p, fault.Op(dir, err)
	}
	if _, err := ParseRecord(text); err != nil {
		return p, fault.Op(dir, err)
	}
	return Packed{m, encoded, rec}, nil
}

// Check compares an unpacked bundle with what the bundle says of it. results are the bytes
// of the layer Results. It returns what could not be compared. Errors of kind fault.Invalid
// say what does not hold. It does not compute the verdicts again: evidence.Verify does.
func Check(dir string, m Manifest, rec Record, results []byte) (notes []string, err error) {
	run, err := store.Open(dir)
	if err != nil {
		return nil, foreign(err)
	}
	defer run.Close()
	seen, res, inside, err := read(run, rec.Run)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "the folder of the bundle", err)
	}
	if string(inside) != string(results) {
		return nil, fault.New(fault.Invalid, "the results of the bundle differ from the file %s in the folder of "+
			"the bundle", store.ResultsFile)
	}
	files, bytes, err := list(run.FS())
	if err != nil {
		return nil, err
	}
	lines, err := run.Journal()
	if err != nil {
		return nil, err
	}
	sums := journalSums(lines)
	seen.Files, seen.Bytes, seen.Lacking = len(files), bytes, lacking(files, sums)
	if rec.Rules != Rules { // another version reads other facts in the same bytes
		notes = append(notes, fmt.Sprintf("the facts follow version %d of the rules and were not compared; this program "+
			"has version %d", rec.Rules, Rules))
		seen.Rules, seen.Facts, seen.Machine, seen.Unplanned = rec.Rules, rec.Facts, rec.Machine, rec.Unplanned
	}
	if rec.SamplesFormat != SamplesFormat {
		seen.SamplesFormat = rec.SamplesFormat
		notes = append(notes, fmt.Sprintf("the samples have the format %d; this program writes %d and did not compare them",
			rec.SamplesFormat, SamplesFormat))
	}
	if differ := differences(rec, seen); len(differ) > 0 {
		return notes, fault.New(fault.Invalid, "the record and the folder of the bundle differ in %s", names(differ))
	}
	// Writing the folder again compares the raw files with the journal.
	if err := writeFolder(io.Discard, run.FS(), files, sums); err != nil {
		return notes, fault.Wrap(fault.Invalid, "the folder of the bundle", err)
	}
	if rec.SamplesFormat == SamplesFormat {
		sum := sha256.New()
		if err := WriteSamples(sum, rec, res); err != nil {
			return notes, err
		}
		if "sha256:"+hex.EncodeToString(sum.Sum(nil)) != m.Samples().Digest {
			return notes, fault.New(fault.Invalid, "the samples of the bundle differ from the samples in its file "+
				"%s", store.ResultsFile)
		}
	}
	return notes, nil
}
