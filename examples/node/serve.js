// Serves an application until the process gets a signal to end.

// `PORT` is a port of this machine, or the path of a Unix socket.
export function serve(app, close) {
  const port = process.env.PORT ?? "3000";
  const address = port.includes("/") ? { path: port } : { port: Number(port), host: "127.0.0.1" };
  const server = app.listen(address, (error) => {
    if (error) throw error;
    console.log(`listening on ${port}`);
  });
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => server.close(close));
}
