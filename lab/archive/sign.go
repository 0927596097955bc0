package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/lab/archive/bundle"
)

// The types of a signature, an artifact whose subject is a bundle.
const (
	signatureType = "application/vnd.bakeoff.signature.v1"
	sshType       = "application/vnd.bakeoff.signature.ssh.v1"
	emptyType     = "application/vnd.oci.empty.v1+json"
)

// namespace keeps signatures of bundles apart from those of other programs.
const namespace = "bakeoff-run"

// Bounds on signatures: of one in bytes, and of a bundle in number.
const (
	maxSignature  = 64 << 10
	maxSignatures = 100
)

// signatureDir has one empty file for each signature: signatures/DIGITS OF THE BUNDLE/DIGITS.
const signatureDir = "signatures"

// signature is the manifest of a signature.
type signature struct {
	SchemaVersion int64           `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	ArtifactType  string          `json:"artifactType"`
	Config        bundle.Part     `json:"config"`
	Layers        []bundle.Part   `json:"layers"`
	Subject       bundle.Part     `json:"subject"`
}

// parseSignature reads the manifest of a signature of a bundle. Errors are of kind
// fault.Invalid.
func parseSignature(b []byte, of string) (s signature, err error) {
	if len(b) > bundle.MaxManifest {
		return s, fault.New(fault.Invalid, "the manifest of the signature has %d bytes, at most %d are possible", len(b),
			bundle.MaxManifest)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fault.Wrap(fault.Invalid, "the manifest of the signature", err)
	}
	if s.SchemaVersion != 2 || s.ArtifactType != signatureType || len(s.Layers) != 1 || s.Layers[0].MediaType != sshType ||
		s.Subject.Digest != of || !bundle.ValidDigest(s.Layers[0].Digest) || !bundle.ValidDigest(s.Config.Digest) ||
		s.Layers[0].Size <= 0 || s.Layers[0].Size > maxSignature || s.Config.Size < 0 || s.Config.Size > maxSignature {
		return s, fault.New(fault.Invalid, "it is not a signature of the bundle %s", of)
	}
	return s, nil
}

// signTime bounds how long ssh-keygen may take: it may ask an agent, which asks a person.
const signTime = 5 * time.Minute

// sign signs a bundle with the key of the store, unless that has been done.
func (s *Store) sign(ctx context.Context, digest string, manifest []byte) error {
	if s.Config.Key == "" {
		return nil
	}
	if have, err := s.signatures(digest); err != nil || len(have) > 0 {
		return err
	}
	text, err := keygen(ctx, manifest, "-Y", "sign", "-f", s.Config.Key, "-n", namespace)
	if err != nil {
		return fault.WithFix(fault.Op("sign with "+s.Config.Key, err),
			"check the key of store.json, or load it into ssh-agent")
	}
	return s.keepSignature(digest, int64(len(manifest)), text)
}

// keepSignature stores a signature as an artifact.
func (s *Store) keepSignature(of string, size int64, text []byte) error {
	config, err := s.blobs.PutBytes([]byte("{}"), emptyType)
	if err != nil {
		return err
	}
	layer, err := s.blobs.PutBytes(text, sshType)
	if err != nil {
		return err
	}
	part := func(d v1.Descriptor) bundle.Part {
		return bundle.Part{MediaType: d.MediaType, Digest: d.Digest.String(), Size: d.Size}
	}
	b, err := json.Marshal(signature{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: signatureType,
		Config: part(config), Layers: []bundle.Part{part(layer)},
		Subject: bundle.Part{MediaType: types.OCIManifestSchema1, Digest: of, Size: size}})
	if err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return s.commitSignature(of, b)
}

// commitSignature makes a signature whose parts are there a part of the store.
func (s *Store) commitSignature(of string, manifest []byte) error {
	d, err := s.blobs.PutBytes(manifest, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	dir := s.signatureFolder(of)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	return fault.Wrap(fault.Lab, "store", atomicfile.Write(filepath.Join(dir, d.Digest.Hex), nil, 0o666))
}

func (s *Store) signatureFolder(of string) string {
	return filepath.Join(s.Dir, signatureDir, strings.TrimPrefix(of, "sha256:"))
}

// signatures lists the digests of the signatures of a bundle.
func (s *Store) signatures(of string) (out []string, err error) {
	files, err := os.ReadDir(s.signatureFolder(of))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "store", err)
	}
	for _, f := range files {
		if digest := "sha256:" + f.Name(); bundle.ValidDigest(digest) && len(out) < maxSignatures {
			out = append(out, digest)
		}
	}
	return out, nil
}

// readSignature returns the manifest of a signature, and its parts.
func (s *Store) readSignature(digest, of string) (manifest []byte, sig signature, err error) {
	b, err := s.blob(v1.Descriptor{Digest: bundle.Part{Digest: digest}.Descriptor().Digest}, bundle.MaxManifest)
	if err == nil {
		sig, err = parseSignature(b, of)
	}
	return b, sig, err
}

// SignedBy returns those in the file of trusted keys whose signatures of a bundle hold,
// sorted. Without such a file it is nil. A signature that does not hold, or of somebody
// else, says nothing: anybody can add one.
func (s *Store) SignedBy(ctx context.Context, digest string) ([]string, error) {
	if s.Config.Signers == "" {
		return nil, nil
	}
	_, manifest, err := s.Manifest(digest)
	if err != nil {
		return nil, err
	}
	all, err := s.signatures(digest)
	if err != nil {
		return nil, err
	}
	work, done, err := s.workFolder()
	if err != nil {
		return nil, err
	}
	defer done()
	var out []string
	for _, d := range all {
		_, sig, err := s.readSignature(d, digest)
		if err != nil {
			continue
		}
		text, err := s.blob(sig.Layers[0].Descriptor(), maxSignature)
		if err != nil {
			continue
		}
		file := filepath.Join(work, "signature")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return nil, fault.Wrap(fault.Lab, "store", err)
		}
		who, err := keygen(ctx, nil, "-Y", "find-principals", "-f", s.Config.Signers, "-s", file)
		if fault.Is(err, fault.Unsupported) || ctx.Err() != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(string(who), "\n")
		if err != nil || name == "" {
			continue
		}
		if _, err := keygen(ctx, manifest, "-Y", "verify", "-f", s.Config.Signers, "-I", name, "-n", namespace,
			"-s", file); err == nil {
			out = append(out, safetext.Line(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// keygen runs ssh-keygen. The error is of kind fault.Unsupported if there is none.
func keygen(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "signatures need ssh-keygen"),
			"apt-get install openssh-client")
	}
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fault.New(fault.Invalid, "ssh-keygen: %w: %s", err, safetext.LastLines(said.String(), 2))
	}
	if out.Len() > maxSignature {
		return nil, fault.New(fault.Lab, "ssh-keygen wrote %d bytes", out.Len())
	}
	return out.Bytes(), nil
}

// require refuses a bundle that nobody who is trusted signed, if the store asks for it.
func (s *Store) require(ctx context.Context, digest string) error {
	if !s.Config.RequireSignature {
		return nil
	}
	who, err := s.SignedBy(ctx, digest)
	if err != nil || len(who) > 0 {
		return err
	}
	return fault.WithFix(fault.New(fault.Invalid, "nobody in %s signed the bundle %s", s.Config.Signers, digest),
		"ask its owner to sign it")
}
