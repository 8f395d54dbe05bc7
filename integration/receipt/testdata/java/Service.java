import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.sql.DriverManager;
import java.util.UUID;
import java.util.concurrent.Executors;

/** A service on the recipe of docs/receipt.md, which the test writes into Receipts.java. */
class Service {
  public static void main(String[] args) throws Exception {
    var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.createContext("/charges", exchange -> {
      var header = exchange.getRequestHeaders();
      var operation = header.getFirst("Once-Operation");
      try (var db = DriverManager.getConnection(args[0])) {
        var answer = Receipts.once(db, operation, header.getFirst("Once-Fingerprint"), work -> {
          try (var insert = work.prepareStatement("insert into charge (operation) values (?)")) {
            insert.setString(1, operation);
            insert.executeUpdate();
          }
          if ("before".equals(header.getFirst("Die"))) Runtime.getRuntime().halt(1);
          return new Receipts.Answer(201, ("{\"id\":\"" + UUID.randomUUID() + "\"}").getBytes());
        });
        if ("after".equals(header.getFirst("Die"))) Runtime.getRuntime().halt(1);
        exchange.sendResponseHeaders(answer.status(), answer.body().length);
        exchange.getResponseBody().write(answer.body());
      } catch (Exception e) {
        exchange.sendResponseHeaders(500, -1);
      }
      exchange.close();
    });
    server.setExecutor(Executors.newFixedThreadPool(8));
    server.start();
    System.out.println(server.getAddress().getPort());
  }
}
