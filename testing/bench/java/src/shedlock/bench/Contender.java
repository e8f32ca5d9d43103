package shedlock.bench;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import net.javacrumbs.shedlock.core.LockProvider;

/**
 * One side of a comparison. It runs a round of pairs for each line on standard input and writes the
 * result as one line on standard output. Both are JSON; {@code testing/bench/contender} defines their
 * fields. It ends when standard input closes.
 */
final class Contender {
    private static final Gson GSON = new Gson();

    private Contender() {}

    static void serve(LockProvider provider, String versions) throws Exception {
        // Keeps the output of libraries out of the answers.
        PrintStream answers =
                new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Rounds rounds = new Rounds(provider);
        JsonObject ready = new JsonObject();
        ready.addProperty("versions", versions);
        answers.println(GSON.toJson(ready));
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            answers.println(GSON.toJson(rounds.run(GSON.fromJson(line, Rounds.Order.class))));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Takes one lock, gives it back, and prints the peak memory of the process in KiB. */
    static void once(LockProvider provider) throws Exception {
        new Rounds(provider).once();
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                System.out.println(line.replaceAll("[^0-9]", ""));
            }
        }
    }
}
