package archive

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// sshType is the type of a layer that is a signature.
const sshType = "application/vnd.bakeoff.signature.ssh.v1"

// maxSignature bounds a signature, in bytes.
const maxSignature = 64 << 10

// signatures are signatures of the manifest of a bundle.
var signatures = referral{artifactType: "application/vnd.bakeoff.signature.v1", dir: "signatures",
	layers: []layerOf{{sshType, maxSignature}}, least: 1, most: 100, namespace: bundleNamespace,
	signed: func(bundle []byte, layers [][]byte) (message, signature []byte) { return bundle, layers[0] }}

// The namespaces keep signatures of bundles, of results and of other programs apart.
const (
	bundleNamespace      = "bakeoff-run"
	replicationNamespace = "bakeoff-replication"
)

// signTime bounds how long ssh-keygen may take: it may ask an agent, which asks a person.
const signTime = 5 * time.Minute

// sign signs a bundle with the key of the store, unless that has been done.
func (s *Store) sign(ctx context.Context, digest string, manifest []byte) error {
	if s.Config.Key == "" {
		return nil
	}
	if done, err := s.madeHere(signatures, digest); err != nil || done {
		return err
	}
	text, err := s.signature(ctx, bundleNamespace, manifest)
	if err != nil {
		return err
	}
	return s.keepReferrer(signatures, digest, int64(len(manifest)), text)
}

// signature signs a message with the key of the store.
func (s *Store) signature(ctx context.Context, namespace string, message []byte) ([]byte, error) {
	text, err := keygen(ctx, message, "-Y", "sign", "-f", s.Config.Key, "-n", namespace)
	if err != nil {
		return nil, fault.WithFix(fault.Op("sign with "+s.Config.Key, err),
			"check the key of store.json, or load it into ssh-agent")
	}
	return text, nil
}

// signer returns who in the file of trusted keys signed a message; "" if nobody did. work
// is a folder for a file. An error says that it could not be told.
func (s *Store) signer(ctx context.Context, work, namespace string, message, signature []byte) (string, error) {
	if s.Config.Signers == "" {
		return "", nil
	}
	file := filepath.Join(work, "signature")
	if err := os.WriteFile(file, signature, 0o600); err != nil {
		return "", fault.Wrap(fault.Lab, "store", err)
	}
	who, err := keygen(ctx, nil, "-Y", "find-principals", "-f", s.Config.Signers, "-s", file)
	if fault.Is(err, fault.Unsupported) || ctx.Err() != nil {
		return "", err
	}
	name, _, _ := strings.Cut(string(who), "\n")
	if err != nil || name == "" {
		return "", nil
	}
	if _, err := keygen(ctx, message, "-Y", "verify", "-f", s.Config.Signers, "-I", name, "-n", namespace, "-s",
		file); err != nil {
		return "", ctx.Err()
	}
	return safetext.Line(name), nil
}

// signerOf is signer for the layers of a referrer of a bundle whose manifest is about.
func (s *Store) signerOf(ctx context.Context, work string, k referral, about []byte, layers [][]byte) (string, error) {
	message, signature := k.signed(about, layers)
	if signature == nil {
		return "", nil
	}
	return s.signer(ctx, work, k.namespace, message, signature)
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
	all, _, err := s.referrers(signatures, digest)
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
		_, _, layers, err := s.readReferrer(signatures, d, digest)
		if damaged(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		who, err := s.signerOf(ctx, work, signatures, manifest, layers)
		if err != nil {
			return nil, err
		}
		if who != "" {
			out = append(out, who)
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
	return fault.WithFix(fault.New(fault.Invalid, "nobody listed in %s signed the bundle %s", s.Config.Signers, digest),
		"ask the owner of the bundle to sign it")
}
