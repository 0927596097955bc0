package manifest

// Pinned is the image that a plan registers for the name in the lab file: what the name
// meant when the plan was drawn.
type Pinned struct {
	// Reference is the full name in a registry, as in docker.io/library/alpine:3.20, or
	// the word and the absolute path of a file or folder of the controller.
	Reference string `json:"reference"`
	// Digest is sha256:… of the manifest for the controller's architecture; "" for a
	// file or folder.
	Digest string `json:"digest,omitempty"`
}

// Origin returns where the image of c comes from: a name of which an image can be made,
// and the digest of its manifest, or "" if the name alone decides.
func (c Contender) Origin() (name, digest string) {
	switch {
	case c.Pinned == nil:
		return c.Image, ""
	case c.Pinned.Digest == "":
		return c.Pinned.Reference, ""
	}
	return c.Image, c.Pinned.Digest
}
