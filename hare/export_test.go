package hare

// Renders is how many statements the client has rendered.
func Renders(c *Client) uint64 { return c.compiler.Renders() }
